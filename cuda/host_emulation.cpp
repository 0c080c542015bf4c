// Fibers: made by makecontext once, then switched by _setjmp and _longjmp, some ten times faster than swapcontext,
// which is a system call. This file is compiled without -fsanitize=thread, so that the scheduler's own reads and writes
// are no accesses of the kernel; it tells ThreadSanitizer of fibers, barriers and the ends of blocks by hand.
#include "host_emulation.hpp"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "isinglass/random.hpp"

#if defined(ISINGLASS_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace isinglass::cuda::emulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(ISINGLASS_THREAD_SANITIZER)
constexpr std::size_t kStackBytes = std::size_t{1} << 18;
#else
constexpr std::size_t kStackBytes = std::size_t{1} << 16;
#endif

// --- what the sanitizers are told ------------------------------------------------------------------------------------

/// What a happens-before passes through.
struct SyncWord {
  char at = 0;
#if defined(ISINGLASS_THREAD_SANITIZER)
  void release() { __tsan_release(&at); }
  void acquire() { __tsan_acquire(&at); }
#else
  void release() {}
  void acquire() {}
#endif
};
/// Of one barrier, in turn: with a single word the release of the next barrier, by a thread that ran ahead, would leak
/// into the acquire of this one and hide races.
using SyncWords = SyncWord[2];

/// A stack as the sanitizers see it; the scheduler's own is the thread's.
struct Strand {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* tsan = nullptr;
  void* fake_stack = nullptr;
  jmp_buf context;
};

/// Goes on where `to` last stood; returns when someone switches to `from`.
__attribute__((noinline)) void switch_strands(Strand& from, Strand& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  if (_setjmp(from.context) == 0) {
#if defined(ISINGLASS_THREAD_SANITIZER)
    __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
    _longjmp(to.context, 1);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// --- fibers ----------------------------------------------------------------------------------------------------------

enum class State { ready, at_block, at_warp, done };

struct Fiber {
  Fiber() {
    stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) throw std::bad_alloc();
    strand.bottom = stack;
    strand.bytes = kStackBytes;
  }
  ~Fiber() {
#if defined(ISINGLASS_THREAD_SANITIZER)
    if (strand.tsan != nullptr) __tsan_destroy_fiber(strand.tsan);
#endif
    munmap(stack, kStackBytes);
  }
  /// Forgets where a kernel that was given up stood.
  void begin_afresh() {
    begun = true;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, kStackBytes);
    strand.fake_stack = nullptr;
#endif
#if defined(ISINGLASS_THREAD_SANITIZER)
    if (strand.tsan == nullptr) strand.tsan = __tsan_create_fiber(0);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void* stack;
  Strand strand;
  bool begun = false;  // its loop stands in a switch, ready for another block
  Here place{};
  State state = State::ready;
  std::source_location site;
  unsigned block_turn = 0, warp_turn = 0;
};

struct Warp {
  unsigned waiting = 0;
  SyncWords sync;
  std::uint64_t values[2][kWarp];  // in turn: none is overwritten before every lane has read it
};

std::string text(const std::source_location& site) {
  return std::string(site.file_name()) + ":" + std::to_string(site.line());
}

bool same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

/// The scheduler of one host thread.
struct Emulator {
  // Nothing that a fiber does may allocate: to ThreadSanitizer memory that goes from fiber to fiber is a race.
  std::array<std::source_location, 256> barriers;
  std::size_t num_barriers = 0;
  std::size_t most_steps = 0;  // of a block
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  Strand scheduler;
  Fiber* running = nullptr;
  const char* name = nullptr;
  void (*entry)(const void*) = nullptr;
  const void* args = nullptr;
  unsigned threads = 0, at_block = 0, done = 0;
  SyncWords block_sync;
  SyncWord begin, end;
  const char* mistake = nullptr;
  std::uint64_t shuffles = 0, turns = 0;
  std::vector<unsigned> priority;  // of warps, while orders are shuffled

  void run(unsigned blocks, std::size_t shared_bytes);
  void run_block(unsigned block, unsigned blocks, std::size_t shared_bytes);
  void resume(Fiber& fiber);
  void arrive(State state, const std::source_location& site);
  void release_warp(unsigned warp);
  std::vector<unsigned> order(unsigned count);
  std::vector<unsigned> ready_threads();
  std::string standing() const;
  bool skips(const std::source_location& site);
};

Settings in_force;
thread_local Emulator emulator;

/// What a fiber does for ever: a block, then back to the scheduler.
void fiber_loop() {
  Fiber& self = *emulator.running;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &emulator.scheduler.bottom, &emulator.scheduler.bytes);
#endif
  for (;;) {
    emulator.begin.acquire();
    emulator.entry(emulator.args);
    emulator.end.release();
    self.state = State::done;
    ++emulator.done;
    switch_strands(self.strand, emulator.scheduler);
  }
}

void Emulator::resume(Fiber& fiber) {
  running = &fiber;
  here = fiber.place;
  if (fiber.begun) {
    switch_strands(scheduler, fiber.strand);
    return;
  }
  fiber.begin_afresh();
  ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = fiber.stack;
  first.uc_stack.ss_size = kStackBytes;
  first.uc_link = nullptr;
  makecontext(&first, fiber_loop, 0);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&scheduler.fake_stack, fiber.strand.bottom, fiber.strand.bytes);
#endif
  if (_setjmp(scheduler.context) == 0) {
#if defined(ISINGLASS_THREAD_SANITIZER)
    __tsan_switch_to_fiber(fiber.strand.tsan, __tsan_switch_to_fiber_no_sync);
#endif
    setcontext(&first);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(scheduler.fake_stack, nullptr, nullptr);
#endif
}

std::vector<unsigned> Emulator::order(unsigned count) {
  std::vector<unsigned> all(count);
  std::iota(all.begin(), all.end(), 0U);
  if (in_force.order_seed != 0) {
    const SweepKey key = sweep_key(read_key(in_force.order_seed, ++shuffles), 0);
    for (unsigned k = count; k > 1; --k) std::swap(all[k - 1], all[random_bits(key, k) % k]);
  }
  return all;
}

/// Threads that run next. In shuffled orders those of one warp, the same one for several turns: a warp that runs far
/// ahead of the others meets what they have not written yet, where taking turns would hide a missing barrier.
std::vector<unsigned> Emulator::ready_threads() {
  constexpr std::uint64_t kTurns = 16;
  std::vector<unsigned> ready;
  const auto take = [&](unsigned t) {
    if (fibers[t]->state == State::ready) ready.push_back(t);
  };
  if (in_force.order_seed == 0) {
    for (unsigned t = 0; t < threads; ++t) take(t);
    return ready;
  }
  if (++turns % kTurns == 0 || priority.size() != warps.size()) priority = order(static_cast<unsigned>(warps.size()));
  for (std::size_t w = 0; w < priority.size() && ready.empty(); ++w) {
    for (unsigned lane : order(kWarp)) take(priority[w] * kWarp + lane);
  }
  return ready;
}

std::string Emulator::standing() const {
  std::string where;
  std::vector<std::pair<std::string, unsigned>> counts;
  for (unsigned t = 0; t < threads; ++t) {
    const Fiber& fiber = *fibers[t];
    const std::string at = fiber.state == State::done       ? "the end"
                           : fiber.state == State::at_block ? "sync_block " + text(fiber.site)
                                                            : "warp operation " + text(fiber.site);
    const auto known =
        std::find_if(counts.begin(), counts.end(), [&](const auto& known_at) { return known_at.first == at; });
    known == counts.end() ? void(counts.emplace_back(at, 1)) : void(++known->second);
  }
  for (const auto& [at, count] : counts) where += (where.empty() ? "" : ", ") + std::to_string(count) + " at " + at;
  return where;
}

void Emulator::run_block(unsigned block, unsigned blocks, std::size_t shared_bytes) {
  // Exactly as large as asked for: AddressSanitizer sees the first byte beyond it.
  constexpr std::align_val_t kAlignment{16};
  const std::unique_ptr<void, void (*)(void*)> arena(::operator new(shared_bytes, kAlignment),
                                                     [](void* p) { ::operator delete(p, kAlignment); });
  std::memset(arena.get(), in_force.pattern, shared_bytes);
  for (unsigned t = 0; t < threads; ++t) {
    fibers[t]->place = {t, block, threads, blocks, static_cast<std::byte*>(arena.get())};
    fibers[t]->state = State::ready;
    fibers[t]->block_turn = fibers[t]->warp_turn = 0;
  }
  for (Warp& warp : warps) warp.waiting = 0;
  at_block = done = 0;
  begin.release();
  std::size_t steps = 0;
  while (done < threads) {
    const std::vector<unsigned> turn = ready_threads();
    for (unsigned t : turn) {
      resume(*fibers[t]);
      running = nullptr;
      if (mistake != nullptr) break;
    }
    if (turn.empty()) mistake = "deadlock";
    steps += turn.size();
    if (steps > in_force.most_steps) mistake = "no end in sight";
    if (mistake != nullptr) {
      end.acquire();
      // Threads that stand in the middle of the kernel are given up: they begin afresh next time.
      for (auto& fiber : fibers) fiber->begun = fiber->begun && fiber->state == State::done;
      throw Error("kernel " + std::string(name) + ", block " + std::to_string(block) + ": " + mistake + ": " +
                  standing());
    }
  }
  end.acquire();
  most_steps = std::max(most_steps, steps);
}

void Emulator::run(unsigned blocks, std::size_t shared_bytes) {
  while (fibers.size() < threads) fibers.push_back(std::make_unique<Fiber>());
  warps.resize(threads / kWarp);
  mistake = nullptr;
#if defined(ISINGLASS_THREAD_SANITIZER)
  scheduler.tsan = __tsan_get_current_fiber();
#endif
  for (unsigned block : order(blocks)) run_block(block, blocks, shared_bytes);
}

void Emulator::release_warp(unsigned warp) {
  warps[warp].waiting = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) fibers[warp * kWarp + lane]->state = State::ready;
}

/// The running fiber waits, unless it is the last to arrive.
void Emulator::arrive(State state, const std::source_location& site) {
  Fiber& self = *running;
  self.state = state;
  self.site = site;
  end.release();  // in case the block is given up here
  if (state == State::at_block) {
    if (++at_block == threads) {
      for (unsigned t = 0; t < threads; ++t) {
        if (!same(fibers[t]->site, site)) mistake = "barriers in divergent code";
      }
      at_block = 0;
      for (unsigned t = 0; t < threads && mistake == nullptr; ++t) fibers[t]->state = State::ready;
    }
  } else if (++warps[self.place.thread / kWarp].waiting == kWarp) {
    const unsigned warp = self.place.thread / kWarp;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if (!same(fibers[warp * kWarp + lane]->site, site)) mistake = "warp operations in divergent code";
    }
    if (mistake == nullptr) release_warp(warp);
  }
  switch_strands(self.strand, scheduler);
}

bool Emulator::skips(const std::source_location& site) {
  const auto here_again = [&](const std::source_location& known) { return same(known, site); };
  if (std::none_of(barriers.begin(), barriers.begin() + static_cast<std::ptrdiff_t>(num_barriers), here_again)) {
    barriers.at(num_barriers++) = site;
  }
  return in_force.skipped.line == site.line() && in_force.skipped.file == site.file_name();
}

}  // namespace

thread_local Here here;

Settings& settings() { return in_force; }

std::vector<Site> take_barriers() {
  std::vector<Site> sites;
  for (std::size_t k = 0; k < emulator.num_barriers; ++k) {
    sites.push_back({emulator.barriers[k].file_name(), emulator.barriers[k].line()});
  }
  emulator.num_barriers = 0;
  return sites;
}

std::size_t take_most_steps() { return std::exchange(emulator.most_steps, 0); }

void run(const char* name, void (*entry)(const void*), const void* args, unsigned blocks, unsigned threads,
         std::size_t shared_bytes) {
  emulator.name = name;
  emulator.entry = entry;
  emulator.args = args;
  emulator.threads = threads;
  emulator.run(blocks, shared_bytes);
}

bool give_up(const char* mistake) {
  if (emulator.running == nullptr) return false;
  emulator.mistake = mistake;
  return true;
}

void wait_for_block(const std::source_location& site) {
  if (emulator.skips(site)) return;
  SyncWord& word = emulator.block_sync[emulator.running->block_turn ^= 1];
  word.release();
  emulator.arrive(State::at_block, site);
  word.acquire();
}

void wait_for_warp(const std::source_location& site) {
  if (emulator.skips(site)) return;
  Fiber& self = *emulator.running;
  SyncWord& word = emulator.warps[self.place.thread / kWarp].sync[self.warp_turn ^= 1];
  word.release();
  emulator.arrive(State::at_warp, site);
  word.acquire();
}

std::uint64_t exchange(std::uint64_t mine, unsigned lane, const std::source_location& site) {
  Fiber& self = *emulator.running;
  Warp& warp = emulator.warps[self.place.thread / kWarp];
  auto& values = warp.values[self.warp_turn ^= 1];
  values[self.place.thread % kWarp] = mine;
  emulator.arrive(State::at_warp, site);
  return values[lane];
}

std::uint32_t vote(bool mine, const std::source_location& site) {
  Fiber& self = *emulator.running;
  Warp& warp = emulator.warps[self.place.thread / kWarp];
  auto& values = warp.values[self.warp_turn ^= 1];
  values[self.place.thread % kWarp] = mine;
  emulator.arrive(State::at_warp, site);
  std::uint32_t bits = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) bits |= static_cast<std::uint32_t>(values[lane]) << lane;
  return bits;
}

std::int32_t lowest(std::int32_t mine, const std::source_location& site) {
  Fiber& self = *emulator.running;
  Warp& warp = emulator.warps[self.place.thread / kWarp];
  auto& values = warp.values[self.warp_turn ^= 1];
  values[self.place.thread % kWarp] = static_cast<std::uint32_t>(mine);
  emulator.arrive(State::at_warp, site);
  std::int32_t least = mine;
  for (std::uint64_t value : values) least = std::min(least, static_cast<std::int32_t>(value));
  return least;
}

}  // namespace isinglass::cuda::emulation
