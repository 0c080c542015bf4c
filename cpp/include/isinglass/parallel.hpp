// One parked thread pool for the whole process.
#pragma once

#include <cstddef>
#include <functional>

#include "isinglass/control.hpp"

namespace isinglass {

/// Cores this process may run on (its affinity mask), at least 1.
int available_cores();

/// Calls body(i) for i in [0, count), on the calling thread and up to threads - 1 parked ones. Each call must write its
/// own slot, so that neither the order nor the number of threads can change an answer. The exception of the lowest
/// failing index is rethrown after all have ended. Calls that have not begun when `control` stops are skipped.
void parallel_for(std::size_t count, int threads, Control& control, const std::function<void(std::size_t)>& body);

}  // namespace isinglass
