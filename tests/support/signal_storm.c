/* A timer signal for one thread, whose handler asks for no alternate stack: the
 * kernel writes its frame wherever the stack pointer points. The handler counts
 * how often that was on the thread's own stack, and how often elsewhere. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long on_stack, elsewhere;
static char *low, *high;
static timer_t timer;

static void count(int number, siginfo_t *info, void *context) {
  const ucontext_t *thread = context;
  char *at = (char *)thread->uc_mcontext.gregs[REG_RSP];
  (void)number;
  (void)info;
  if (at >= low && at < high) {
    on_stack++;
  } else {
    elsewhere++;
  }
}

/* Signals this thread every `microseconds`; returns 0, or -1 where it cannot. */
int storm_begin(int number, long microseconds, int alternate_stack) {
  pthread_attr_t attributes;
  void *base;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return -1;
  pthread_attr_getstack(&attributes, &base, &size);
  pthread_attr_destroy(&attributes);
  low = base;
  high = low + size;
  on_stack = elsewhere = 0;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = count;
  action.sa_flags = SA_SIGINFO | SA_RESTART | (alternate_stack ? SA_ONSTACK : 0);
  if (sigaction(number, &action, NULL) != 0) return -1;
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = number;
  event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return -1;
  const long nanoseconds = microseconds * 1000;
  struct itimerspec every = {{0, nanoseconds}, {0, nanoseconds}};
  return timer_settime(timer, 0, &every, NULL);
}

void storm_end(long *on, long *off) {
  timer_delete(timer);
  *on = on_stack;
  *off = elsewhere;
}
