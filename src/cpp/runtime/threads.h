// The thread pool. Jobs are fixed, so results never depend on the number of
// threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ea {

void set_num_threads(int count);  // 1..1024, throws ConfigError
int num_threads();

namespace detail {
using JobFn = void (*)(void* context, std::int64_t job);
void run_jobs(std::int64_t jobs, JobFn fn, void* context);
}  // namespace detail

// Calls fn(job) once for every job in [0, jobs), in any order, on any thread;
// returns when all are done. Callers partition work by shape only (never by
// num_threads()) and combine partial results in job order afterwards, which
// guarantees the same bits for any number of threads. Calls from inside a job
// run in sequence. The first exception of a job is rethrown.
template <typename Fn>
void parallel_for(std::int64_t jobs, Fn&& fn) {
  using F = std::remove_reference_t<Fn>;
  detail::run_jobs(
      jobs,
      [](void* context, std::int64_t job) { (*static_cast<F*>(context))(job); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

// Splits [0, n) into chunks of `grain` and calls fn(begin, end) for each.
template <typename Fn>
void parallel_chunks(std::int64_t n, std::int64_t grain, Fn&& fn) {
  const std::int64_t jobs = (n + grain - 1) / grain;
  parallel_for(jobs, [&](std::int64_t job) {
    const std::int64_t begin = job * grain;
    const std::int64_t end = begin + grain < n ? begin + grain : n;
    fn(begin, end);
  });
}

}  // namespace ea
