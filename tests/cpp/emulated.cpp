#include "emulated.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <list>
#include <system_error>

#if defined(ISINGLASS_THREAD_SANITIZER)
#include <sanitizer/common_interface_defs.h>

namespace {
int races_of_host = 0;
}
// The sanitizer's library calls these: they may not be hidden.
#define ISINGLASS_FOR_SANITIZER extern "C" __attribute__((visibility("default")))
// Barriers are left out on purpose, so races do not make the process fail; and one that looks like another counts too.
ISINGLASS_FOR_SANITIZER const char* __tsan_default_options() {
  return "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0";
}
// Called in the middle of a report: an access that is watched itself would wait for it for ever.
ISINGLASS_FOR_SANITIZER __attribute__((no_sanitize_thread)) void __tsan_on_report(void*) {
  if (!isinglass::cuda::emulation::give_up("a race")) ++races_of_host;
}
#endif

namespace isinglass::cuda {
namespace {

#if defined(ISINGLASS_THREAD_SANITIZER)
constexpr bool kSeesRaces = true;
int races_outside_of_kernels() { return races_of_host; }
void print_races(bool on) {
  static const int nowhere = open("/dev/null", O_WRONLY);
  __sanitizer_set_report_fd(reinterpret_cast<void*>(static_cast<std::intptr_t>(on ? STDERR_FILENO : nowhere)));
}
#else
constexpr bool kSeesRaces = false;
int races_outside_of_kernels() { return 0; }
void print_races(bool) {}
#endif

std::list<Barrier> known;

bool wrong_or_thrown(const std::function<bool()>& goes_wrong) {
  try {
    return goes_wrong();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

Emulated::Emulated(emulation::Settings settings) {
  print_races(settings.skipped.line == 0);
  emulation::settings() = std::move(settings);
}
Emulated::~Emulated() {
  emulation::settings() = {};
  print_races(true);
}

bool ends_badly(const std::function<bool()>& goes_wrong) {
  if (kSeesRaces) return wrong_or_thrown(goes_wrong);
  std::cout.flush();  // or the child, too, would write what stands there
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    _exit(wrong_or_thrown(goes_wrong) ? 1 : 0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  return status != 0;
}

std::vector<Barrier*> barriers_reached() {
  std::vector<Barrier*> reached;
  for (const emulation::Site& site : emulation::take_barriers()) {
    const auto found = std::ranges::find(known, site, &Barrier::site);
    reached.push_back(found != known.end() ? &*found : &known.emplace_back(site));
  }
  return reached;
}

LAST_TEST(emulated_kernels_need_all_their_barriers) {
  constexpr std::size_t kUnseen = kSeesRaces ? 0 : 18;  // show as races alone, one of them by what memory holds as well
  barriers_reached();
  std::erase_if(known, [](const Barrier& barrier) { return barrier.needed; });
  CHECK(known.size() <= kUnseen);
  if (known.size() > kUnseen) {
    for (const auto& [site, _] : known) std::cerr << site.file << ':' << site.line << ": no test needs this barrier\n";
  }
  CHECK(races_outside_of_kernels() == 0);
}

}  // namespace isinglass::cuda
