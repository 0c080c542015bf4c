#include "isinglass/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#include <unistd.h>

namespace isinglass {
namespace {

struct Job {
  Job(std::size_t count_in, Control& control_in, const std::function<void(std::size_t)>& body_in)
      : count(count_in), control(control_in), body(body_in) {}

  const std::size_t count;
  Control& control;
  const std::function<void(std::size_t)>& body;
  std::atomic<std::size_t> next{0};
  int helpers_wanted = 0;  // guarded by the pool's mutex, as are the next two
  int helpers_inside = 0;
  std::condition_variable left;
  std::mutex failure_mutex;
  std::size_t failed_index = 0;
  std::exception_ptr failure;

  void work() {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      if (control.stop()) return;
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure || i < failed_index) {
          failure = std::current_exception();
          failed_index = i;
        }
      }
    }
  }
};

class Pool {
 public:
  void run(Job& job, int helpers) {
    {
      const std::lock_guard lock(mutex_);
      while (workers_ < helpers) {
        std::thread(&Pool::serve, this).detach();  // parked for the life of the process
        ++workers_;
      }
      job.helpers_wanted = helpers;
      jobs_.push_back(&job);
    }
    wake_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
    // Helpers may still be in their last item: keep asking for signals while they end.
    while (!job.left.wait_for(lock, std::chrono::milliseconds(50), [&] { return job.helpers_inside == 0; })) {
      lock.unlock();
      job.control.stop();
      lock.lock();
    }
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !jobs_.empty(); });
      Job& job = *jobs_.front();
      ++job.helpers_inside;
      if (--job.helpers_wanted == 0) jobs_.pop_front();
      lock.unlock();
      job.work();
      lock.lock();
      if (--job.helpers_inside == 0) job.left.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> jobs_;
  int workers_ = 0;
};

/// The pool of this process. A forked child has none of its parent's threads, so it gets a new one; the parent's copy
/// is left alone, since its mutex may be held by a thread that no longer exists.
Pool& pool() {
  static std::mutex mutex;
  static Pool* instance = nullptr;
  static pid_t owner = 0;
  const std::lock_guard lock(mutex);
  if (instance == nullptr || owner != getpid()) {
    instance = new Pool;
    owner = getpid();
  }
  return *instance;
}

}  // namespace

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(std::size_t count, int threads, Control& control, const std::function<void(std::size_t)>& body) {
  Job job(count, control, body);
  const int helpers =
      static_cast<int>(std::min<std::size_t>(count, static_cast<std::size_t>(std::max(1, threads)))) - 1;
  if (helpers <= 0) {
    job.work();
  } else {
    pool().run(job, helpers);
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace isinglass
