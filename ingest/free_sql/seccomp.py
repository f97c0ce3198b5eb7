"""The seccomp filter: calls of the kernel that a process with SQL of strangers has no use for.

A program of the kernel's packet filter, put together here (man 2 seccomp). Calls that would write,
start a program, open a socket or touch another process fail; everything else, reading and
computing, goes on. Numbers are those of x86-64 and of 64-bit Arm (asm/unistd_64.h,
asm-generic/unistd.h); on other machines there is no filter and missing_layers() reports it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ|K, JGE, JSET, BPF_RET|K."""
_NUMBER, _MACHINE = 0, 4
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_SET_FILTER, _ALL_THREADS = 1, 1
_X32_BIT = 0x40000000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CLONE_THREAD = 0x10000

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_OPENS = {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}
"""open and openat: number of the call -> which argument holds its flags."""
_CLONE = {"x86_64": 56, "aarch64": 220}
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
_FCNTL = {"x86_64": 72, "aarch64": 25}
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
"""Duplicates and flags of a descriptor (F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL,
F_DUPFD_CLOEXEC). All others fail: locks and leases would keep the indexer from a file that is only
read here, and owners of a file send signals to any process.
"""
_TGKILL = {"x86_64": 234, "aarch64": 131}

# name: (x86-64, 64-bit Arm); None: the machine has no such call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "creat": (85, None),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rmdir": (84, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "copy_file_range": (326, 285),
    "sendfile": (40, 71),
    "splice": (275, 76),
    "tee": (276, 77),
    "vmsplice": (278, 75),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "ioctl": (16, 29),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "perf_event_open": (298, 241),
    "setrlimit": (160, 164),
    "personality": (135, 92),
    "userfaultfd": (323, 282),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "quotactl": (179, 60),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "setuid": (105, 146),
    "setgid": (106, 144),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_unlink": (241, 181),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_mrelease": (448, 448),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "flock": (73, 32),
    "open_tree_attr": (467, 467),
    "file_setattr": (469, 469),
    "setresuid": (117, 147),
    "setreuid": (113, 145),
    "setresgid": (119, 149),
    "setregid": (114, 143),
    "setgroups": (116, 159),
    "setfsuid": (122, 151),
    "setfsgid": (123, 152),
    "capset": (126, 91),
}
_UNKNOWN = {"openat2": (437, 437), "clone3": (435, 435)}
"""No filter sees their flags, which are behind a pointer: the C library takes the older calls."""

Instruction = tuple[int, int, int, int]


def is_known_machine() -> bool:
    """Whether there is a filter for this machine."""
    return platform.system() == "Linux" and platform.machine() in _AUDIT


def program(pid: int) -> bytes:
    """The filter for the process of this number."""
    return b"".join(
        struct.pack("=HBBI", *instruction) for instruction in _program(platform.machine(), pid)
    )


def install(libc: ctypes.CDLL, packed: bytes) -> None:
    """Filter the calls of all threads of this process. Raises OSError."""
    code = ctypes.create_string_buffer(packed)
    header = struct.pack("HxxxxxxP", len(packed) // 8, ctypes.addressof(code))
    if libc.syscall(_SECCOMP[platform.machine()], _SET_FILTER, _ALL_THREADS, header) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the filter of system calls: {os.strerror(number)}")


def _program(machine: str, pid: int) -> list[Instruction]:
    column = list(_AUDIT).index(machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
    ]
    for numbers in _DENIED.values():
        program += _answer(numbers[column], errno.EPERM)
    for numbers in _UNKNOWN.values():
        program += _answer(numbers[column], errno.ENOSYS)
    for number, argument in _OPENS[machine].items():
        program += _unless(number, [*_low(argument), (_ANY_OF, 0, 1, _WRITING)], errno.EACCES)
    program += _unless(_CLONE[machine], [*_low(0), (_ANY_OF, 1, 0, _CLONE_THREAD)], errno.EPERM)
    program += _unless(_TGKILL[machine], [*_low(0), (_EQUAL, 1, 0, pid)], errno.EPERM)
    program += _unless(_FCNTL[machine], [*_low(1), *_one_of(_FCNTL_COMMANDS)], errno.EPERM)
    for load in (_low(2), _high(2)):  # prlimit with new limits
        program += _unless(_PRLIMIT[machine], [*load, (_EQUAL, 1, 0, 0)], errno.EPERM)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _answer(number: int | None, error: int) -> list[Instruction]:
    if number is None:
        return []
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)]


def _low(argument: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, 16 + 8 * argument)]


def _high(argument: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, 20 + 8 * argument)]


def _one_of(values: Sequence[int]) -> list[Instruction]:
    """Jumps over the instruction that follows where the value is one of these."""
    return [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]


def _unless(number: int, test: list[Instruction], error: int) -> list[Instruction]:
    """The call fails unless the test, whose last instruction jumps over one, lets it pass; the
    number is loaded again after it.
    """
    inside = [*test, (_RETURN, 0, 0, _ERROR | error), (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(inside), number), *inside]
