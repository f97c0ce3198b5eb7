/*
 * Slows the connection of two ranks down; LD_PRELOAD it (selftest.py).
 *
 * SLOW_PAIR_FOLDER: gets a file PORT-PEER for each TCP connection, with the rank that connects from PORT
 * to PEER, and PORT-0 with the rank that listens on PORT.
 * SLOW_PAIR: the two ranks, such as 2,5. SLOW_PAIR_US: what each of their sends waits before it goes
 * out, us. Other connections are only looked at. Ranks are those of the environment (RANK).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int own_rank(void) {
    const char *text = getenv("RANK");
    return text ? atoi(text) : -1;
}

static int port_of(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET) return ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (address->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return -1;
}

/* Local port, and that of the other end (0 of one that listens); negative where there is none. */
static int local_port(int fd) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    return getsockname(fd, (struct sockaddr *)&address, &size) == 0 ? port_of(&address) : -1;
}

static int peer_port(int fd) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    return getpeername(fd, (struct sockaddr *)&address, &size) == 0 ? port_of(&address) : -1;
}

/* Two processes may connect from one port number to different ones: both ports name a connection. */
static void note_rank(int local, int peer) {
    const char *folder = getenv("SLOW_PAIR_FOLDER");
    if (!folder || own_rank() < 0 || local <= 0) return;
    char path[512];
    snprintf(path, sizeof path, "%s/%d-%d", folder, local, peer);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "%d", own_rank());
    fclose(file);
}

static int noted_rank(int local, int peer) {
    char path[512];
    int rank = -1;
    snprintf(path, sizeof path, "%s/%d-%d", getenv("SLOW_PAIR_FOLDER"), local, peer);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    if (fscanf(file, "%d", &rank) != 1) rank = -1;
    fclose(file);
    return rank;
}

/* Rank at the other end of each descriptor, by both ports: descriptors are used again. */
static struct { int local, peer, rank; } peers[4096];

static int rank_behind(int fd) {
    int local = local_port(fd), peer = peer_port(fd);
    if (local <= 0 || peer <= 0) return -1;
    if (peers[fd].local != local || peers[fd].peer != peer || peers[fd].rank < 0) {
        int rank = noted_rank(peer, local);                /* the other end has connected */
        peers[fd].rank = rank < 0 ? noted_rank(peer, 0) : rank; /* or it listens */
        peers[fd].local = local;
        peers[fd].peer = peer;
    }
    return peers[fd].rank;
}

static void wait_if_slow(int fd) {
    const char *pair = getenv("SLOW_PAIR"), *wait_us = getenv("SLOW_PAIR_US");
    int one, other, own = own_rank(), saved = errno;
    if (!pair || !wait_us || own < 0 || fd < 0 || fd >= 4096) return;
    if (sscanf(pair, "%d,%d", &one, &other) != 2 || (own != one && own != other)) return;
    if (rank_behind(fd) == (own == one ? other : one)) usleep(atoi(wait_us));
    errno = saved;
}

int listen(int fd, int backlog) {
    static int (*real)(int, int);
    if (!real) real = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
    int result = real(fd, backlog);
    if (result == 0) note_rank(local_port(fd), 0);
    return result;
}

int connect(int fd, const struct sockaddr *address, socklen_t size) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    int result = real(fd, address, size), saved = errno;
    struct sockaddr_storage target = {0};
    memcpy(&target, address, size < sizeof target ? size : sizeof target);
    int peer = port_of(&target);
    if (peer > 0) note_rank(local_port(fd), peer);
    errno = saved;
    return result;
}

#define DELAYED(result, name, parameters, ...)                                 \
    result name parameters {                                                   \
        static result(*real) parameters;                                       \
        if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name);       \
        wait_if_slow(fd);                                                      \
        return real(__VA_ARGS__);                                              \
    }

DELAYED(ssize_t, send, (int fd, const void *data, size_t size, int flags), fd, data, size, flags)
DELAYED(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
DELAYED(ssize_t, writev, (int fd, const struct iovec *parts, int count), fd, parts, count)
