// A pool of std::threads; workers spin briefly, then sleep, between calls.
#include "runtime/threads.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cgroup.h"
#include "runtime/check.h"
#include "runtime/env.h"
#include "runtime/fork.h"
#include "runtime/signals.h"

namespace ea {

namespace {

thread_local bool inside_job = false;

// One call of run_jobs; lives until every worker that has seen it is done.
struct Batch {
  detail::JobFn fn = nullptr;
  void* context = nullptr;
  std::int64_t jobs = 0;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;

  void work() {
    inside_job = true;
    for (;;) {
      const std::int64_t job = next.fetch_add(1, std::memory_order_relaxed);
      if (job >= jobs) break;
      try {
        fn(context, job);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(jobs, std::memory_order_relaxed);
      }
    }
    inside_job = false;
  }
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) {
        workers_.emplace_back([this] { loop(); });
      }
    } catch (...) {  // the system has no more threads: fewer compute the same
    }
  }

  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void run(Batch& batch) {
    {
      const std::lock_guard lock(mutex_);
      batch_ = &batch;
      busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_.load() > 0) wake_.notify_all();
    batch.work();
    for (int spin = 0; busy_.load(std::memory_order_acquire) > 0; ++spin) {
      if (spin > kSpins) std::this_thread::yield();
    }
  }

 private:
  static constexpr int kSpins = 4000;

  void loop() {
    const SignalsBlocked blocked;  // only the program's threads handle signals
    std::uint64_t seen = 0;
    for (;;) {
      wait_for_change(seen);
      Batch* batch = nullptr;
      {
        const std::lock_guard lock(mutex_);
        seen = generation_.load(std::memory_order_relaxed);
        if (stop_) return;
        batch = batch_;
      }
      batch->work();
      busy_.fetch_sub(1, std::memory_order_release);
    }
  }

  void wait_for_change(std::uint64_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (generation_.load(std::memory_order_acquire) != seen) return;
      __builtin_ia32_pause();
    }
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, [&] { return generation_.load() != seen; });
    sleeping_.fetch_sub(1);
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> busy_{0};
  std::atomic<int> sleeping_{0};
  Batch* batch_ = nullptr;
  bool stop_ = false;
};

struct State {
  // Held during a parallel call: one at a time.
  ForkMutex call_mutex{ForkMutex::Level::threads};
  std::unique_ptr<ThreadPool> pool;
  std::atomic<int> wanted{0};  // read without call_mutex
};

// Never destroyed: joining workers while the interpreter shuts down can hang.
State* state = nullptr;

// A forked child has none of its parent's threads and starts a new pool. No
// call was running, since the fork held call_mutex.
void reset_in_child() { (void)state->pool.release(); }

State& shared() {
  static const bool once = [] {
    state = new State;
    state->wanted = env::num_threads() > 0 ? env::num_threads() : usable_cpus();
    pthread_atfork(nullptr, nullptr, reset_in_child);
    return true;
  }();
  (void)once;
  return *state;
}

}  // namespace

void set_num_threads(int count) {
  EA_CHECK_AS(ConfigError, count >= 1 && count <= 1024, "set_num_threads",
              "expected 1 to 1024 threads, got {}", count);
  State& s = shared();
  const std::lock_guard lock(s.call_mutex);
  if (s.wanted == count) return;
  s.wanted = count;
  s.pool.reset();
}

int num_threads() { return shared().wanted; }

namespace detail {

void run_jobs(std::int64_t jobs, JobFn fn, void* context) {
  if (jobs <= 0) return;
  State& s = shared();
  if (jobs == 1 || inside_job || s.wanted == 1) {
    for (std::int64_t job = 0; job < jobs; ++job) fn(context, job);
    return;
  }
  const std::lock_guard lock(s.call_mutex);
  if (!s.pool) s.pool = std::make_unique<ThreadPool>(s.wanted);
  Batch batch;
  batch.fn = fn;
  batch.context = context;
  batch.jobs = jobs;
  s.pool->run(batch);
  if (batch.error) std::rethrow_exception(batch.error);
}

}  // namespace detail

}  // namespace ea
