/* A candidate's library, written by hand: `main` of x, w and y does MISDEED. What is refused it
   tells on standard error, and aborts; where it is let, it returns, and leaves y as it was. WORKER
   (a process), OUTSIDE (a folder) and TEXT (LENGTH bytes) are filled in when it is compiled. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#define THERE OUTSIDE "/there"
#define ABSENT OUTSIDE "/absent"

static void refused(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  abort();
}

static void tried(const char *what, int result) {
  if (result < 0) refused(what);
}

/* Untouched, so that the machine's memory stays free. More than there is: it was let. */
static void allocate(void) {
  long block = 1 << 28, blocks = sysconf(_SC_PHYS_PAGES) / (block / sysconf(_SC_PAGESIZE));
  while (blocks-- > 0)
    if (!malloc(block)) refused("malloc");
}

static void forks(void) {
  int child = fork();
  if (child == 0) {
    close(open(ABSENT, O_CREAT | O_WRONLY, 0600));
    _exit(0);
  }
  tried("fork", child);
}

static void execute(void) {
  char *const arguments[] = {(char *)"touch", (char *)ABSENT, NULL};
  tried("execve", execv("/usr/bin/touch", arguments));
}

static void create(void) { tried("create", open(ABSENT, O_CREAT | O_WRONLY, 0600)); }
static void overwrite(void) { tried("overwrite", open(THERE, O_WRONLY)); }
static void truncates(void) { tried("truncate", truncate(THERE, 0)); }
static void removes(void) { tried("remove", unlink(THERE)); }
static void renames(void) { tried("rename", rename(THERE, ABSENT)); }
static void links(void) { tried("link", link(THERE, ABSENT)); }
static void links_by_name(void) { tried("symlink", symlink(THERE, ABSENT)); }
static void make_folder(void) { tried("mkdir", mkdir(ABSENT, 0700)); }
static void change_mode(void) { tried("chmod", chmod(THERE, 0)); }

static void segfault(void) { *(volatile int *)8 = 1; }

/* The interpreter's lock is taken, if the call had let go of it: no thread of Python runs. */
static void hang(void) {
  int (*lock)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  if (!lock) refused("PyGILState_Ensure");
  lock();
  for (volatile int i = 0;; i++) {
  }
}

static void internet(void) { tried("socket", socket(AF_INET, SOCK_STREAM, 0)); }

static void database(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = OUTSIDE "/socket"};
  int handle = socket(AF_UNIX, SOCK_STREAM, 0);
  tried("connect", connect(handle, (struct sockaddr *)&address, sizeof address));
}

static void say_to_log(int handle) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = OUTSIDE "/log"};
  tried("sendto", sendto(handle, "mine", 4, 0, (struct sockaddr *)&address, sizeof address));
}

static void datagram(void) {
  int handle = socket(AF_UNIX, SOCK_DGRAM, 0);
  tried("socket", handle);
  say_to_log(handle);
}

static void raw_datagram(void) {
  int handle = socket(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0);
  tried("socket", handle);
  say_to_log(handle);
}

static void paired_datagram(void) {
  int pair[2];
  tried("socketpair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
  say_to_log(pair[0]);
}

/* Each is removed right away, should it be let. */
static void share_memory(void) {
  int id = shmget(IPC_PRIVATE, 4096, 0600);
  tried("shmget", id);
  shmctl(id, IPC_RMID, NULL);
}

static void share_semaphore(void) {
  int id = semget(IPC_PRIVATE, 1, 0600);
  tried("semget", id);
  semctl(id, 0, IPC_RMID);
}

static void queue(void) {
  int id = msgget(IPC_PRIVATE, 0600);
  tried("msgget", id);
  msgctl(id, IPC_RMID, NULL);
}

static void queue_by_name(void) {
  int id = mq_open("/convtune-misdeed", O_CREAT | O_RDWR, 0600, NULL);
  tried("mq_open", id);
  mq_unlink("/convtune-misdeed");
}

static void keep_key(void) { tried("add_key", syscall(SYS_add_key, "user", "convtune", "x", 1, -1)); }
static void read_keys(void) { tried("keyctl", syscall(SYS_keyctl, 0, -4, 0)); }
static void leave_namespace(void) { tried("unshare", unshare(CLONE_NEWUSER)); }

static void clone_namespace(void) {
  long flags = CLONE_NEWNS | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  tried("clone", syscall(SYS_clone, flags, 0, 0, 0, 0));
}

static void enter_namespace(void) {
  int file = open("/proc/self/ns/uts", O_RDONLY);
  tried("open", file);
  tried("setns", setns(file, 0));
}

/* To what is so already. */
static void slow_worker(void) {
  tried("setpriority", setpriority(PRIO_PROCESS, WORKER, getpriority(PRIO_PROCESS, WORKER)));
}

static void slow_all(void) { tried("setpriority", setpriority(PRIO_USER, 0, 19)); }

static void schedule_worker(void) {
  struct sched_param parameters = {0};
  tried("sched_setscheduler", sched_setscheduler(WORKER, SCHED_OTHER, &parameters));
}

static void set_worker(void) {
  struct sched_param parameters = {0};
  tried("sched_setparam", sched_setparam(WORKER, &parameters));
}

static void attribute_worker(void) {
  struct { uint32_t size, policy; uint64_t rest[6]; } attributes = {48};
  tried("sched_setattr", syscall(SYS_sched_setattr, WORKER, &attributes, 0));
}

static void delay_worker(void) {
  tried("ioprio_set", syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, WORKER, 0));
}

static void survive(void) { tried("prctl", prctl(PR_SET_PDEATHSIG, 0)); }
static void open_up(void) { tried("prctl", prctl(PR_SET_DUMPABLE, 1)); }

static void score(const char *path) {
  int file = open(path, O_WRONLY);
  tried("score", file);
  tried("score", write(file, "0", 1));
}

static void forgive_self(void) { score("/proc/self/oom_score_adj"); }
static void forgive_thread(void) { score("/proc/thread-self/oom_score_adj"); }

static void blame_worker(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/oom_score_adj", WORKER);
  score(path);
}

static void age(void) {
  struct utimbuf times = {1, 1};
  tried("utime", utime(THERE, &times));
}

static void mark(void) { tried("setxattr", setxattr(THERE, "user.convtune", "x", 1, 0)); }

/* One that changes nothing, should it arrive. */
static void signal_worker(void) { tried("kill", kill(WORKER, SIGCONT)); }

/* In its own folder, each gibibyte on from the last, so that the disk does not fill. */
static void write_on(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/endless", getenv("TMPDIR"));
  int file = open(path, O_CREAT | O_WRONLY, 0600);
  tried("open", file);
  for (off_t at = 0;; at += 1 << 30) tried("write", pwrite(file, "", 1, at));
}

/* The same where the C library's own way with this signal is back: it ends the process. */
static void write_on_unaware(void) {
  signal(SIGXFSZ, SIG_DFL);
  write_on();
}

/* To whatever could be the worker's end of a pipe or socket, with the text's length before it, as the
   process itself does. */
static void answer(void) {
  static const unsigned char text[LENGTH] = {TEXT};
  unsigned char length[4] = {sizeof text >> 24, sizeof text >> 16, sizeof text >> 8, sizeof text};
  for (int file = 0; file < 1024; file++) {
    struct stat found;
    if (fstat(file, &found) || !(S_ISSOCK(found.st_mode) || S_ISFIFO(found.st_mode))) continue;
    tried("length", write(file, length, sizeof length));
    tried("text", write(file, text, sizeof text));
  }
}

static void answer_and_hang(void) {
  answer();
  hang();
}

/* Until somebody ends it. */
static void answer_on(void) {
  for (;;) answer();
}

/* Most of a GPU's memory, and then more than there is, by the driver that the process holds already.
   The rest of it stays for tests that run at the same time. */
static void allocate_on_device(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*available)(size_t *, size_t *) =
      driver ? (int (*)(size_t *, size_t *))dlsym(driver, "cuMemGetInfo_v2") : NULL;
  int (*allocate)(uint64_t *, size_t) =
      driver ? (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2") : NULL;
  uint64_t address;
  size_t free_now, all;
  int result;
  if (!available || !allocate) refused("cuMemAlloc");
  if (available(&free_now, &all)) refused("cuMemGetInfo");
  while (!(result = allocate(&address, free_now / 4 * 3))) {
  }
  fprintf(stderr, "cuMemAlloc: error %d\n", result);
  abort();
}

int __tvm_ffi_main(void *self, const void *arguments, int32_t count, void *result) {
  (void)self, (void)arguments, (void)count, (void)result;
  MISDEED();
  return 0;
}
