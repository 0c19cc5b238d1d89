/* A disk that fails when told to, in front of the C library, for the files of a database.

   It also keeps, beside them, what a power cut would leave: a write gets there with the next sync that succeeds. A sync
   that fails loses what was written before it for good, since Linux then takes those pages for clean. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTHING, WRITES, SYNCS };
enum { FILES = 2 };

/* Shared with the test: what to do, and what was done. */
struct control {
    int32_t kind;      /* which calls fail */
    int32_t countdown; /* the so-manieth from now on is the first */
    int32_t times;     /* and so many in all; below zero, until told otherwise */
    int32_t error;
    int32_t partly; /* the first of them still writes its first half */
    int32_t failed;
    int32_t writes;
    int32_t syncs;
};

struct range {
    off_t start;
    size_t length;
    struct range *next;
};

static struct control *control;
static struct range *unsynced[FILES];
static int shadow[FILES] = {-1, -1};
static int shadow_lock = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);

static int open_in(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_RDWR | O_CREAT, 0600);
}

static void prepare(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    const char *folder = getenv("DISK_FOLDER");
    if (folder == NULL)
        return;
    int file = open_in(folder, "control");
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    shadow[0] = open_in(folder, "left.db");
    shadow[1] = open_in(folder, "left.db-wal");
    shadow_lock = open_in(folder, "lock");
    control = mapped == MAP_FAILED ? NULL : mapped;
}

/* Which of the database's files this is; -1 for any other, FILES for one that may fail but is not kept. */
static int which(int fd) {
    char link[64], path[4096];
    pthread_once(&once, prepare);
    if (control == NULL)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return -1;
    path[length] = '\0';
    const char *name = strrchr(path, '/');
    if (name == NULL)
        return -1;
    if (strcmp(name, "/assent.db") == 0)
        return 0;
    if (strcmp(name, "/assent.db-wal") == 0)
        return 1;
    return strcmp(name, "/assent.db-shm") == 0 ? FILES : -1;
}

/* Is it this call's turn to fail? 2 when it is the first of them. */
static int fails(int kind) {
    if (__atomic_load_n(&control->kind, __ATOMIC_SEQ_CST) != kind)
        return 0;
    int32_t left = __atomic_sub_fetch(&control->countdown, 1, __ATOMIC_SEQ_CST);
    if (left > 0)
        return 0;
    int32_t times = __atomic_load_n(&control->times, __ATOMIC_SEQ_CST);
    if (times >= 0 && -left >= times)
        return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST);
    return left == 0 ? 2 : 1;
}

static void remember(int file, off_t start, size_t length) {
    if (file >= FILES || length == 0)
        return;
    struct range *range = malloc(sizeof *range);
    range->start = start;
    range->length = length;
    pthread_mutex_lock(&mutex);
    range->next = unsynced[file];
    unsynced[file] = range;
    pthread_mutex_unlock(&mutex);
}

/* What was written before a sync that is about to be made: taken off the list first, as a later write is not in it. */
static struct range *take(int file) {
    pthread_mutex_lock(&mutex);
    struct range *taken = unsynced[file];
    unsynced[file] = NULL;
    pthread_mutex_unlock(&mutex);
    return taken;
}

static void keep(int file, int fd, struct range *taken, int synced) {
    char *buffer = NULL;
    flock(shadow_lock, LOCK_EX);
    while (taken != NULL) {
        struct range *next = taken->next;
        if (synced) {
            buffer = realloc(buffer, taken->length);
            ssize_t got = pread(fd, buffer, taken->length, taken->start);
            if (got > 0)
                real_pwrite(shadow[file], buffer, (size_t)got, taken->start);
        }
        free(taken);
        taken = next;
    }
    struct stat now, left;
    if (synced && fstat(fd, &now) == 0 && fstat(shadow[file], &left) == 0 && left.st_size > now.st_size)
        real_ftruncate(shadow[file], now.st_size);
    flock(shadow_lock, LOCK_UN);
    free(buffer);
}

static ssize_t faulty_write(int file, int fd, const void *data, size_t size, off_t at) {
    __atomic_add_fetch(&control->writes, 1, __ATOMIC_SEQ_CST);
    int turn = fails(WRITES);
    if (turn == 2 && control->partly && size > 1)
        size /= 2;
    else if (turn) {
        errno = control->error;
        return -1;
    }
    ssize_t written = real_pwrite(fd, data, size, at);
    if (written > 0)
        remember(file, at, (size_t)written);
    return written;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    int file = which(fd);
    return file < 0 ? real_pwrite(fd, data, size, at) : faulty_write(file, fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return pwrite64(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size) {
    int file = which(fd);
    if (file < 0)
        return real_write(fd, data, size);
    off_t at = lseek(fd, 0, SEEK_CUR);
    ssize_t written = faulty_write(file, fd, data, size, at);
    if (written > 0)
        lseek(fd, at + written, SEEK_SET);
    return written;
}

static int faulty_sync(int fd, int file, int (*real)(int)) {
    __atomic_add_fetch(&control->syncs, 1, __ATOMIC_SEQ_CST);
    struct range *taken = file < FILES ? take(file) : NULL;
    int failed = fails(SYNCS) != 0;
    int result = failed ? -1 : real(fd);
    if (file < FILES)
        keep(file, fd, taken, result == 0);
    if (failed)
        errno = control->error;
    return result;
}

int fdatasync(int fd) {
    int file = which(fd);
    return file < 0 ? real_fdatasync(fd) : faulty_sync(fd, file, real_fdatasync);
}

int fsync(int fd) {
    int file = which(fd);
    return file < 0 ? real_fsync(fd) : faulty_sync(fd, file, real_fsync);
}
