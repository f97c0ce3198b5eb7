/* Holds what a process sends while the file $STALLED_NETWORK exists; LD_PRELOAD it (stuck.py). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_for_network(int fd) {
    const char *path = getenv("STALLED_NETWORK");
    int type;
    socklen_t size = sizeof type;
    if (!path || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return;
    while (access(path, F_OK) == 0) usleep(10000);
}

#define HELD(result, name, parameters, ...)                                    \
    result name parameters {                                                   \
        static result(*real) parameters;                                       \
        if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);       \
        wait_for_network(fd);                                                  \
        return real(__VA_ARGS__);                                              \
    }

HELD(ssize_t, send, (int fd, const void *data, size_t size, int flags), fd, data, size, flags)
HELD(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
HELD(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
