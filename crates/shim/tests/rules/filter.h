// Filters of system calls (seccomp(2)), which the including program sets up in its own way.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

// What a filter begins with: the number of the call.
#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define KILL(number)                                                 \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),           \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW(number)                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),           \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
// What it ends with, for every other call.
#define KILL_ALL_ELSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define ALLOW_ALL_ELSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
