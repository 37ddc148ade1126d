// Memory that a program changes by calls which a preloaded library does not see, round after round, so that a library
// that keeps what is unmapped has begun to: `unseen MODE… | all [ROUNDS] | list`, 200 rounds without.
//
// Each mode prints "MODE: as Linux promises", or "MODE: not here: WHY" where the kernel or the CPU lacks the way, and
// ends with 0; or it says what was wrong, and ends with 1. Without a library every mode ends with 0.
//
//   WAY-before   changed, then unmapped through the C library; what is mapped next is new memory
//   WAY-after    the same change once it is unmapped. Where a mapping is laid there, it is the program's and stays as
//                it is. Where Linux says ENOMEM, for nothing is mapped, the call's answer is not looked at: a library
//                can't change it. But what is mapped next must be new memory all the same.
//   dontneed-WAY, free-WAY, protect-WAY
//                changed, then advised, or protected, through the C library, which is answered as without it
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <stdarg.h>
#include <sys/uio.h>

// What the headers of older systems lack.
enum { GUARD = 102, PROCESS_MADVISE = 440, PIDFD_OPEN = 434, SEAL = 462, DONTUNMAP = 4, KEY_ALLOC = 330, KEY_PROTECT = 329 };
// Of the C library's own headers, PKEY_DISABLE_ACCESS; of linux/userfaultfd.h, UFFD_USER_MODE_ONLY.
enum { NO_ACCESS = 1, USER_MODE_ONLY = 1 };
// More often than a library may want to see before it keeps, and more at once than what was changed.
enum { BEFORE_KEPT = 8, NEW = 4 };
// What the program's own memory holds, what it lays over it, what the file holds, and what new memory is filled with.
enum { OLD = 7, LAID = 9, FILED = 0x46, FILLED = 5, FOREIGN = 0x55 };
#define BIGGEST (4UL << 20)
// Seconds for a mode: rounds stand still only where a fault waits for somebody. Under emulation they take long.
enum { DEADLINE = 900 };

// By which a mode that is run with others tells that it can't be: with a library as many must say so as without.
enum { NOT_HERE = 77 };
#define ONE_OF_MANY "UNSEEN_ONE_OF_MANY"

static const char *mode, *step = "beginning";
static int number;
static size_t size;

// One round: the memory, the part that is changed, and what must still be there at its end.
struct turn {
	char *p, *at;
	size_t len, n;
	int after;
	// A mapping of the program's past the library, and what it holds.
	char *owner;
	size_t owned;
	int mark, sealed;
	// What the file holds from its beginning on, where it is not FILED.
	size_t written;
};

struct way {
	const char *name;
	int (*change)(struct turn *, int);
	int arg;
	// What else is looked at once new memory is in use.
	void (*finish)(struct turn *, char **, int);
	// Whether it is a way before the unmapping, after it, or both.
	int when;
	// Which of the checks fork each time.
	int forks;
};
enum { BEFORE = 1, AFTER = 2, BOTH = 3 };


// The error of a call by number, 0 if it was well.
static int error(long answer) { return answer < 0 ? (int)-answer : 0; }

static void __attribute__((noreturn, format(printf, 1, 2))) wrong(const char *format, ...) {
	va_list rest;
	printf("%s: ", mode);
	va_start(rest, format);
	vprintf(format, rest);
	va_end(rest);
	printf(" (round %d, %zu KB, %s)\n", number, size >> 10, step);
	fflush(stdout);
	_exit(1);
}

static void __attribute__((noreturn)) not_here(const char *what, int why) {
	printf("%s: not here: %s: %s\n", mode, what, strerror(why));
	fflush(stdout);
	_exit(getenv(ONE_OF_MANY) ? NOT_HERE : 0);
}

static void struck(int sig, siginfo_t *info, void *context) {
	(void)context;
	if (sig == SIGALRM)
		wrong("it stands still");
	wrong("%s at %p", sig == SIGBUS ? "SIGBUS" : "SIGSEGV", info->si_addr);
}

// Whether all of it is this byte. By words: an emulator takes long for what a CPU has special instructions for.
static int all_is(const char *p, size_t len, int byte) {
	uint64_t wanted = 0x0101010101010101UL * (unsigned char)byte, differs = 0;
	const uint64_t *words = (const uint64_t *)p;
	for (size_t i = 0; i < len / sizeof *words && !differs; i += 8)
		for (size_t j = 0; j < 8; j++)
			differs |= words[i + j] ^ wanted;
	return !differs;
}

// What a byte is, -1 if it can't be read, and this without a fault.
static int peek(const char *p) {
	unsigned char byte;
	struct iovec here = {&byte, 1}, there = {(char *)p, 1};
	return raw(SYS_process_vm_readv, getpid(), (long)&here, 1, (long)&there, 1, 0) == 1 ? byte : -1;
}

static int can_write(char *p) {
	char byte = OLD;
	struct iovec here = {&byte, 1}, there = {p, 1};
	return raw(SYS_process_vm_writev, getpid(), (long)&here, 1, (long)&there, 1, 0) == 1;
}

// What smaps says of one range: the flags of its mappings, and what is wrong with the rest.
#define FLAGS 256
static void look(const char *p, size_t len, char *flags, char *amiss) {
	char line[FLAGS];
	unsigned long begin = (unsigned long)p, end = begin + len, a, b, inode, seen = 0;
	int here = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	MUST(f);
	*flags = *amiss = 0;
	while (fgets(line, sizeof line, f)) {
		char rights[8], name[64] = "";
		int key;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %63[^\n]", &a, &b, rights, &inode, name) >= 4) {
			here = a < end && begin < b;
			if (!here)
				continue;
			seen += (b < end ? b : end) - (a > begin ? a : begin);
			if (strcmp(rights, "rw-p") || inode || *name)
				snprintf(amiss, FLAGS, "it is %s, inode %lu, named \"%s\"", rights, inode, name);
		} else if (here && sscanf(line, "ProtectionKey: %d", &key) == 1 && key && !*amiss) {
			snprintf(amiss, FLAGS, "it has protection key %d", key);
		} else if (here && strncmp(line, "VmFlags:", 8) == 0) {
			// Soft-dirty is of what was written; and that there may be guard pages is said of a neighbour too,
			// with which the kernel makes it one.
			char *told, now[FLAGS];
			while ((told = strstr(line, " sd")) || (told = strstr(line, " gu")))
				memmove(told, told + 3, strlen(told + 3) + 1);
			line[strcspn(line, "\n")] = 0;
			snprintf(now, sizeof now, "%s", line + 9);
			if (*flags && strcmp(flags, now) && !*amiss)
				snprintf(amiss, FLAGS, "some of it has the flags %.100s", now);
			strcpy(flags, now);
		}
	}
	fclose(f);
	if (seen != len)
		snprintf(amiss, FLAGS, "%lu of %zu bytes of it are mapped", seen, len);
}

// The flags of what the kernel itself maps.
static char plain[FLAGS];

static char *map_by_number(void *at, size_t len, int rights, int flags, int fd) {
	long p = raw(SYS_mmap, (long)at, (long)len, rights, flags, fd, 0);
	if (error(p) && error(p) < 4096)
		wrong("mmap by number: %s", strerror(error(p)));
	return (char *)p;
}

static void unmap_by_number(void *p, size_t len) { MUST(raw(SYS_munmap, (long)p, (long)len, 0, 0, 0, 0) == 0); }

// That this is what mmap promises, before anything is written.
static void must_be_new(char *q, size_t len) {
	char flags[FLAGS], amiss[FLAGS];
	step = "looking at new memory";
	look(q, len, flags, amiss);
	if (*amiss)
		wrong("new memory: %s", amiss);
	if (strcmp(flags, plain))
		wrong("new memory has the flags %s, and not %s", flags, plain);
	int policy = 0;
	long answer = raw(SYS_get_mempolicy, (long)&policy, 0, 0, (long)q, 2 /* MPOL_F_ADDR */, 0);
	if (answer == 0 && policy)
		wrong("new memory has the NUMA policy %d", policy);
	step = "reading new memory";
	for (size_t i = 0; !all_is(q, len, 0) && i < len; i++)
		if (q[i])
			wrong("new memory is not zero: byte %zu is %#x", i, (unsigned char)q[i]);
}

// A child has it as it is, and what that writes is its own.
static void must_be_forked(char **q, size_t len) {
	step = "forking";
	pid_t child = fork();
	MUST(child >= 0);
	if (!child) {
		alarm(0);
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		for (int i = 0; i < NEW; i++) {
			if (!all_is(q[i], len, FILLED + i))
				_exit(1);
			memset(q[i], FOREIGN, len);
		}
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0) == child);
	if (status)
		wrong("a child has not what its parent has: it ended with %#x", status);
	for (int i = 0; i < NEW; i++)
		if (!all_is(q[i], len, FILLED + i))
			wrong("what a child writes its parent reads");
}

// ---- What a mode uses, made when it begins.

static int file = -1, pipes[2], watcher = -1, myself = -1, key = -1, writer_in = -1, writer_out = -1;
static unsigned long node_mask = 1;
// Room that the kernel gives to nobody else meanwhile.
static char *spare;

static void make_file(void) {
	file = memfd_create("unseen", MFD_CLOEXEC);
	MUST(file >= 0);
	char *whole = malloc(BIGGEST);
	memset(whole, FILED, BIGGEST);
	MUST(write(file, whole, BIGGEST) == (long)BIGGEST);
	free(whole);
}

// A process that writes into this one's memory where it is told to. Made before anything is kept: a library may give back
// all that it keeps when it forks.
struct ask {
	char *p;
	size_t len;
};
static void make_writer(void) {
	int to[2], from[2];
	MUST(pipe(to) == 0 && pipe(from) == 0);
	// 0x59616d61: PR_SET_PTRACER, for where Yama lets a child write to its parent only by leave
	prctl(0x59616d61, -1L, 0, 0, 0);
	pid_t parent = getpid(), child = fork();
	MUST(child >= 0);
	if (!child) {
		struct ask ask;
		static char foreign[BIGGEST];
		memset(foreign, FOREIGN, sizeof foreign);
		close(to[1]);
		while (read(to[0], &ask, sizeof ask) == sizeof ask) {
			struct iovec here = {foreign, ask.len}, there = {ask.p, ask.len};
			int why = process_vm_writev(parent, &here, 1, &there, 1, 0) < 0 ? errno : 0;
			if (write(from[1], &why, sizeof why) != sizeof why)
				break;
		}
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	writer_in = to[1];
	writer_out = from[0];
}

// A ring of io_uring, by number all of it.
static struct {
	int fd;
	char *at;
	struct io_uring_sqe *entries;
	struct io_uring_params params;
} ring = {.fd = -1};

static void make_ring(void) {
	struct io_uring_params *p = &ring.params;
	long fd = raw(SYS_io_uring_setup, 4, (long)p, 0, 0, 0, 0);
	if (fd < 0)
		not_here("io_uring", error(fd));
	ring.fd = (int)fd;
	if (!(p->features & IORING_FEAT_SINGLE_MMAP))
		not_here("io_uring in one mapping", EOPNOTSUPP);
	size_t of_sq = p->sq_off.array + p->sq_entries * 4, of_cq = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	ring.at = map_by_number(0, of_sq > of_cq ? of_sq : of_cq, RW, MAP_SHARED | MAP_POPULATE, ring.fd);
	long entries = raw(SYS_mmap, 0, p->sq_entries * sizeof *ring.entries, RW, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
	MUST(!(entries < 0 && entries > -4096));
	ring.entries = (struct io_uring_sqe *)entries;
}

// Reads the file into what was registered, by the address that it had.
static void read_registered(struct turn *t) {
	struct io_uring_params *p = &ring.params;
	memset(ring.entries, 0, sizeof *ring.entries);
	ring.entries->opcode = IORING_OP_READ_FIXED;
	ring.entries->fd = file;
	ring.entries->addr = (unsigned long)t->at;
	ring.entries->len = (unsigned)t->n;
	unsigned *tail = (unsigned *)(ring.at + p->sq_off.tail), *array = (unsigned *)(ring.at + p->sq_off.array);
	array[*tail & (p->sq_entries - 1)] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	MUST(raw(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) == 1);
	unsigned *head = (unsigned *)(ring.at + p->cq_off.head);
	struct io_uring_cqe *done = (struct io_uring_cqe *)(ring.at + p->cq_off.cqes) + (*head & (p->cq_entries - 1));
	if (done->res != (int)t->n)
		wrong("READ_FIXED says %d, and not %zu", done->res, t->n);
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	MUST(raw(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, 0, 0, 0, 0) == 0);
}

// ---- The ways. Each changes t->n bytes at t->at, and returns the error.

static int protect(struct turn *t, int rights) { return error(raw(SYS_mprotect, (long)t->at, (long)t->n, rights, 0, 0, 0)); }

static int advise(struct turn *t, int advice) { return error(raw(SYS_madvise, (long)t->at, (long)t->n, advice, 0, 0, 0)); }

static int advise_process(struct turn *t, int advice) {
	if (myself < 0) {
		myself = (int)raw(PIDFD_OPEN, getpid(), 0, 0, 0, 0, 0);
		if (myself < 0)
			not_here("pidfd_open", -myself);
	}
	struct iovec io = {t->at, t->n};
	return error(raw(PROCESS_MADVISE, myself, (long)&io, 1, advice, 0, 0));
}

static int lock(struct turn *t, int flags) { return error(raw(SYS_mlock2, (long)t->at, (long)t->n, flags, 0, 0, 0)); }

// All memory of the process, and so also what the library has mapped.
static int lock_all(struct turn *t, int flags) {
	(void)t;
	return error(raw(SYS_mlockall, flags, 0, 0, 0, 0, 0));
}

static void unlock_all(struct turn *t, char **filled, int count) {
	(void)t, (void)filled, (void)count;
	MUST(raw(SYS_munlockall, 0, 0, 0, 0, 0, 0) == 0);
}

// To the first node, which every machine has. A policy that prefers it moves nothing.
static int bind_to(struct turn *t, int policy) {
	return error(raw(SYS_mbind, (long)t->at, (long)t->n, policy, (long)&node_mask, 8, 0));
}

static int give_key(struct turn *t, int arg) {
	(void)arg;
	if (key < 0) {
		key = (int)raw(KEY_ALLOC, 0, NO_ACCESS, 0, 0, 0, 0);
		if (key < 0)
			not_here("pkey_alloc", -key);
	}
	return error(raw(KEY_PROTECT, (long)t->at, (long)t->n, RW, key, 0, 0));
}

static int name(struct turn *t, int arg) {
	(void)arg;
	return error(raw(SYS_prctl, 0x53564d41 /* PR_SET_VMA */, 0, (long)t->at, (long)t->n, (long)"unseen", 0));
}

static int watch(struct turn *t, int arg) {
	(void)arg;
	if (watcher < 0) {
		watcher = (int)raw(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY, 0, 0, 0, 0, 0);
		if (watcher < 0)
			not_here("userfaultfd", -watcher);
		// Faults get SIGBUS instead of waiting for us.
		struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
		long answer = raw(SYS_ioctl, watcher, (long)UFFDIO_API, (long)&api, 0, 0, 0);
		if (answer < 0)
			not_here("userfaultfd", error(answer));
	}
	struct uffdio_register what = {.range = {(unsigned long)t->at, t->n}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	int why = error(raw(SYS_ioctl, watcher, (long)UFFDIO_REGISTER, (long)&what, 0, 0, 0));
	// so says this call where nothing is mapped
	return t->after && why == EINVAL ? ENOMEM : why;
}

static int unmap(struct turn *t, int arg) {
	(void)arg;
	return error(raw(SYS_munmap, (long)t->at, (long)t->n, 0, 0, 0, 0));
}

// Another mapping in its place: of the file if so, and 0 for anonymous.
static int lay(struct turn *t, int flags) {
	int of_file = !(flags & MAP_ANONYMOUS);
	map_by_number(t->at, t->n, RW, flags | MAP_FIXED, of_file ? file : -1);
	memset(t->at, LAID, t->n);
	if (of_file && flags & MAP_SHARED)
		t->written = t->n;
	if (t->after) {
		t->owner = t->at;
		t->owned = t->n;
		t->mark = LAID;
	}
	return 0;
}

// A segment of System V, in its place.
static int attach(struct turn *t, int arg) {
	(void)arg;
	long id = raw(SYS_shmget, IPC_PRIVATE, (long)t->n, 0600, 0, 0, 0);
	if (id < 0)
		not_here("shmget", error(id));
	long at = raw(SYS_shmat, id, (long)t->at, SHM_REMAP, 0, 0, 0);
	raw(SYS_shmctl, id, IPC_RMID, 0, 0, 0, 0);
	if (at < 0 && at > -4096)
		return error(at);
	memset(t->at, LAID, t->n);
	if (t->after) {
		t->owner = t->at;
		t->owned = t->n;
		t->mark = LAID;
	}
	return 0;
}

// Away, to where the program has room.
static int move(struct turn *t, int flags) {
	char *room = map_by_number(0, t->n, PROT_NONE, ANON, -1);
	long at = raw(SYS_mremap, (long)t->at, (long)t->n, (long)t->n, MREMAP_MAYMOVE | MREMAP_FIXED | flags, (long)room, 0);
	if (at != (long)room)
		return error(at);
	t->owner = room;
	t->owned = t->n;
	t->mark = OLD;
	return 0;
}

// And onto it, once it is free.
static int move_onto(struct turn *t, int arg) {
	(void)arg;
	map_by_number(spare, t->n, RW, ANON | MAP_FIXED, -1);
	memset(spare, LAID, t->n);
	long at = raw(SYS_mremap, (long)spare, (long)t->n, (long)t->n, MREMAP_MAYMOVE | MREMAP_FIXED, (long)t->at, 0);
	map_by_number(spare, BIGGEST, PROT_NONE, ANON | MAP_FIXED, -1);
	if (at != (long)t->at)
		return error(at);
	t->owner = t->at;
	t->owned = t->n;
	t->mark = LAID;
	return 0;
}

// One page, for what is sealed stays to the end of the process.
static int seal(struct turn *t, int arg) {
	(void)arg;
	t->n = PAGE;
	int why = error(raw(SEAL, (long)t->at, (long)t->n, 0, 0, 0, 0));
	if (!why && !t->after) {
		t->owner = t->at;
		t->owned = t->n;
		t->mark = OLD;
		t->sealed = 1;
	}
	return why;
}

static int write_from_outside(struct turn *t, int arg) {
	(void)arg;
	struct ask ask = {t->at, t->n};
	int why;
	MUST(write(writer_in, &ask, sizeof ask) == sizeof ask && read(writer_out, &why, sizeof why) == sizeof why);
	return why;
}

static int register_buffer(struct turn *t, int arg) {
	(void)arg;
	if (ring.fd < 0)
		make_ring();
	struct iovec io = {t->at, t->n};
	return error(raw(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, (long)&io, 1, 0, 0));
}

static void finish_buffer(struct turn *t, char **q, int count) {
	step = "reading into what was registered";
	read_registered(t);
	for (int i = 0; i < count; i++)
		if (!all_is(q[i], t->len, FILLED + i))
			wrong("what was registered was read into new memory");
}

static int lend(struct turn *t, int flags) {
	if (!pipes[1])
		MUST(pipe(pipes) == 0);
	struct iovec io = {t->at, PAGE};
	return error(raw(SYS_vmsplice, pipes[1], (long)&io, 1, flags, 0, 0));
}

static void finish_pipe(struct turn *t, char **q, int count) {
	(void)t, (void)q, (void)count;
	static _Alignas(8) char page[PAGE];
	step = "reading the pipe";
	MUST(read(pipes[0], page, PAGE) == (long)PAGE);
	if (!all_is(page, PAGE, OLD))
		wrong("the pipe holds %#x, and not what it was lent", (unsigned char)page[0]);
}

// A child that is made by number, beside which both go on mapping. It must keep what it has.
static int child_in[2], child_out[2];
static pid_t child;

static int fork_by_number(struct turn *t, int arg) {
	(void)arg;
	MUST(pipe(child_in) == 0 && pipe(child_out) == 0);
	long answer = raw(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
	MUST(answer >= 0);
	if (answer == 0) {
		char go = 0;
		if (read(child_in[0], &go, 1) != 1)
			_exit(2);
		go = all_is(t->p, t->len, OLD);
		for (int i = 0; go && i < 2 * BEFORE_KEPT; i++) {
			char *q = mmap(0, t->len, RW, ANON, -1, 0);
			go = q != MAP_FAILED && zero(q, t->len);
			if (go) {
				memset(q, FOREIGN, t->len);
				go = munmap(q, t->len) == 0;
			}
		}
		go = go && munmap(t->p, t->len) == 0;
		_exit(go && write(child_out[1], &go, 1) == 1 ? 0 : 1);
	}
	child = (pid_t)answer;
	return 0;
}

static void finish_child(struct turn *t, char **q, int count) {
	step = "waiting for a child that was made by number";
	char go = 1;
	int status;
	MUST(write(child_in[1], &go, 1) == 1);
	MUST(waitpid(child, &status, 0) == child);
	for (int i = 0; i < 2; i++) {
		close(child_in[i]);
		close(child_out[i]);
	}
	if (status)
		wrong("a child that was made by number has not what it had, or maps what is not new: it ended with %#x", status);
	for (int i = 0; i < count; i++)
		if (!all_is(q[i], t->len, FILLED + i))
			wrong("what such a child writes its parent reads");
}

static const struct way ways[] = {
	{"none", protect, PROT_NONE, 0, BOTH, 0},
	{"read", protect, PROT_READ, 0, BOTH, 0},
	{"code", protect, PROT_READ | PROT_EXEC, 0, BOTH, 0},
	{"all-rights", protect, RW | PROT_EXEC, 0, BOTH, 0},
	{"file", lay, MAP_SHARED, 0, BOTH, 0},
	{"private-file", lay, MAP_PRIVATE, 0, BOTH, 0},
	{"anonymous", lay, ANON, 0, BOTH, 0},
	{"shared", lay, MAP_SHARED | MAP_ANONYMOUS, 0, BOTH, 1},
	{"segment", attach, 0, 0, BOTH, 0},
	{"unmapped", unmap, 0, 0, BOTH, 0},
	{"moved", move, 0, 0, BEFORE, 0},
	{"emptied", move, DONTUNMAP, 0, BEFORE, 0},
	{"moved-onto", move_onto, 0, 0, AFTER, 0},
	{"dontfork", advise, MADV_DONTFORK, 0, BOTH, 1},
	{"wipeonfork", advise, MADV_WIPEONFORK, 0, BOTH, 1},
	{"dontneed", advise, MADV_DONTNEED, 0, BOTH, 0},
	{"free", advise, MADV_FREE, 0, BOTH, 0},
	{"guard", advise, GUARD, 0, BOTH, 0},
	{"mergeable", advise, MADV_MERGEABLE, 0, BOTH, 0},
	{"nohugepage", advise, MADV_NOHUGEPAGE, 0, BOTH, 0},
	{"hugepage", advise, MADV_HUGEPAGE, 0, BOTH, 0},
	{"dontdump", advise, MADV_DONTDUMP, 0, BOTH, 0},
	{"random", advise, MADV_RANDOM, 0, BOTH, 0},
	{"pageout", advise, MADV_PAGEOUT, 0, BOTH, 0},
	{"guard-by-process", advise_process, GUARD, 0, BOTH, 0},
	{"dontneed-by-process", advise_process, MADV_DONTNEED, 0, BOTH, 0},
	{"pageout-by-process", advise_process, MADV_PAGEOUT, 0, BOTH, 0},
	{"locked", lock, 0, 0, BOTH, 0},
	{"locked-on-fault", lock, MLOCK_ONFAULT, 0, BOTH, 0},
	{"bound", bind_to, 2 /* MPOL_BIND */, 0, BOTH, 0},
	{"preferred", bind_to, 1 /* MPOL_PREFERRED */, 0, BOTH, 0},
	{"key", give_key, 0, 0, BOTH, 0},
	{"named", name, 0, 0, BOTH, 0},
	{"sealed", seal, 0, 0, BOTH, 0},
	{"watched", watch, 0, 0, BOTH, 0},
	{"registered", register_buffer, 0, finish_buffer, BEFORE, 0},
	{"lent", lend, 0, finish_pipe, BEFORE, 0},
	{"given", lend, SPLICE_F_GIFT, finish_pipe, BEFORE, 0},
	{"written-from-outside", write_from_outside, 0, 0, BOTH, 0},
	{"forked", fork_by_number, 0, finish_child, BEFORE, 0},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

// ---- A round.

static void begin(struct turn *t, int after) {
	// In an order in which a few rounds are of all kinds, and short.
	static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 128 << 10, 4 << 20, 512 << 10, 2 << 20};
	size = sizes[(size_t)number % COUNT(sizes)];
	*t = (struct turn){.len = size, .after = after};
}

// All of it, one page amid, the first half, the last page: in numbers that have nothing in common with those of sizes.
static void choose(struct turn *t) {
	switch (number % 4) {
	case 0: t->at = t->p, t->n = t->len; break;
	case 1: t->at = t->p + t->len / 2, t->n = PAGE; break;
	case 2: t->at = t->p, t->n = t->len / 2; break;
	default: t->at = t->p + t->len - PAGE, t->n = PAGE;
	}
}

static void begin_keeping(size_t len) {
	step = "mapping and unmapping";
	for (int i = 0; i < BEFORE_KEPT; i++) {
		char *p = map(len);
		memset(p, OLD, len);
		MUST(munmap(p, len) == 0);
	}
}

static void check_rest(struct turn *t) {
	if (t->owner && !all_is(t->owner, t->owned, t->mark))
		wrong("the program's own mapping is not as it was");
	static _Alignas(8) char content[BIGGEST];
	if (file < 0 || !t->written)
		return;
	MUST(pread(file, content, t->written, 0) == (long)t->written);
	if (!all_is(content, t->written, LAID))
		wrong("the file holds %#x, and not what was written to it", (unsigned char)content[0]);
}

// Unmapped through the C library: at once, or its end first.
static void give_back(struct turn *t) {
	step = "unmapping";
	if (t->sealed) {
		if (munmap(t->p, t->len) != -1 || errno != EPERM || !all_is(t->p, t->len, OLD))
			wrong("sealed memory was unmapped");
		MUST(t->at == t->p || munmap(t->p, (size_t)(t->at - t->p)) == 0);
		char *end = t->at + t->n;
		MUST(end == t->p + t->len || munmap(end, (size_t)(t->p + t->len - end)) == 0);
		return;
	}
	// That fails where its beginning is not mapped any more.
	if (number % 5 == 4 && mremap(t->p, t->len, t->len / 2, 0) == t->p)
		MUST(munmap(t->p, t->len / 2) == 0);
	else
		MUST(munmap(t->p, t->len) == 0);
}

static void one_round(const struct way *way, int after) {
	struct turn t;
	char *q[NEW];
	begin(&t, after);
	begin_keeping(t.len);
	t.p = map(t.len);
	step = "filling";
	memset(t.p, OLD, t.len);
	choose(&t);
	step = "changing";
	int why = after ? 0 : way->change(&t, way->arg);
	if (why)
		not_here("the call", why);
	give_back(&t);
	if (after) {
		step = "changing what is unmapped";
		why = way->change(&t, way->arg);
		if (why && why != ENOMEM && why != EFAULT)
			not_here("the call", why);
	}
	for (int i = 0; i < NEW; i++) {
		step = "mapping new memory";
		q[i] = map(t.len);
		if (t.owner && q[i] < t.owner + t.owned && t.owner < q[i] + t.len)
			wrong("new memory lies where the program's own mapping is");
		must_be_new(q[i], t.len);
		step = "writing new memory";
		memset(q[i], FILLED + i, t.len);
	}
	for (int i = 0; i < NEW; i++)
		if (!all_is(q[i], t.len, FILLED + i))
			wrong("new memory does not hold what was written");
	check_rest(&t);
	if (way->finish)
		way->finish(&t, q, NEW);
	if (way->forks || number % 3 == 0)
		must_be_forked(q, t.len);
	step = "unmapping new memory";
	for (int i = 0; i < NEW; i++)
		MUST(munmap(q[i], t.len) == 0);
	check_rest(&t);
	// Its owner unmaps it by number or through the C library.
	if (t.owner && !t.sealed) {
		if (number % 2)
			unmap_by_number(t.owner, t.owned);
		else
			MUST(munmap(t.owner, t.owned) == 0);
	}
	if (t.written) {
		static char content[BIGGEST];
		memset(content, FILED, t.written);
		MUST(pwrite(file, content, t.written, 0) == (long)t.written);
	}
}

// ---- Advice and rights through the C library, of what was changed unseen.

struct told {
	const char *name;
	int (*change)(struct turn *, int);
	int arg;
	// The answer that Linux gives, 0 or an error.
	int answer;
	// What then is read where it was changed: -1 if nothing can be, ANY if the program may not rely on it.
	int holds;
	void (*finish)(struct turn *, char **, int);
};
enum { ANY = -2 };

static const struct told dontneed[] = {
	{"none", protect, PROT_NONE, 0, -1, 0},
	{"read", protect, PROT_READ, 0, 0, 0},
	{"code", protect, PROT_READ | PROT_EXEC, 0, 0, 0},
	{"file", lay, MAP_SHARED, 0, LAID, 0},
	{"private-file", lay, MAP_PRIVATE, 0, FILED, 0},
	{"anonymous", lay, ANON, 0, 0, 0},
	{"shared", lay, MAP_SHARED | MAP_ANONYMOUS, 0, LAID, 0},
	{"unmapped", unmap, 0, ENOMEM, -1, 0},
	{"moved", move, 0, ENOMEM, -1, 0},
	{"emptied", move, DONTUNMAP, 0, 0, 0},
	{"guard", advise, GUARD, 0, -1, 0},
	{"guard-by-process", advise_process, GUARD, 0, -1, 0},
	{"wipeonfork", advise, MADV_WIPEONFORK, 0, 0, 0},
	{"locked", lock, 0, EINVAL, OLD, 0},
	{"all-locked", lock_all, MCL_CURRENT, EINVAL, OLD, unlock_all},
	{"key", give_key, 0, 0, ANY, 0},
	{"watched", watch, 0, 0, -1, 0},
	{"registered", register_buffer, 0, 0, 0, finish_buffer},
	{"lent", lend, 0, 0, 0, finish_pipe},
	{"forked", fork_by_number, 0, 0, 0, finish_child},
};
static const struct told freed[] = {
	{"file", lay, MAP_SHARED, EINVAL, LAID, 0},
	{"shared", lay, MAP_SHARED | MAP_ANONYMOUS, EINVAL, LAID, 0},
	{"locked", lock, 0, EINVAL, OLD, 0},
	{"all-locked", lock_all, MCL_CURRENT, EINVAL, OLD, unlock_all},
	{"unmapped", unmap, 0, ENOMEM, -1, 0},
	{"read", protect, PROT_READ, 0, ANY, 0},
	{"guard", advise, GUARD, 0, -1, 0},
};
static const struct told rights[] = {
	{"none", protect, PROT_NONE, 0, OLD, 0},
	{"read", protect, PROT_READ, 0, OLD, 0},
	{"code", protect, PROT_READ | PROT_EXEC, 0, OLD, 0},
	{"all-rights", protect, RW | PROT_EXEC, 0, OLD, 0},
	{"unmapped", unmap, 0, ENOMEM, -1, 0},
	{"guard", advise, GUARD, 0, -1, 0},
};
enum { RIGHTS = -1 };

static void one_call(const struct told *told, int advice) {
	struct turn t;
	begin(&t, 0);
	begin_keeping(t.len);
	t.p = map(t.len);
	step = "using again and again";
	for (int i = 0; i < BEFORE_KEPT; i++) {
		memset(t.p, OLD, t.len);
		MUST((advice == RIGHTS ? mprotect(t.p, t.len, RW) : madvise(t.p, t.len, advice)) == 0);
	}
	memset(t.p, OLD, t.len);
	choose(&t);
	step = "changing";
	int why = told->change(&t, told->arg);
	if (why)
		not_here("the call", why);
	step = advice == RIGHTS ? "protecting" : "advising";
	why = (advice == RIGHTS ? mprotect(t.p, t.len, RW) : madvise(t.p, t.len, advice)) ? errno : 0;
	if (why != told->answer)
		wrong("it says \"%s\", and not \"%s\"", why ? strerror(why) : "well", told->answer ? strerror(told->answer) : "well");
	step = "looking at what was changed";
	for (char *p = t.at; told->holds != ANY && p < t.at + t.n; p += PAGE) {
		int holds = peek(p);
		if (holds != told->holds)
			wrong("byte %zd of what was changed is %d, and not %d (-1: it can't be read)", p - t.at, holds, told->holds);
	}
	// Rights are what they were made last.
	if (told->change == protect) {
		int may = advice == RIGHTS || (told->arg & PROT_WRITE) != 0;
		if (can_write(t.at) != may)
			wrong("it can%s be written", may ? "not" : "");
		char flags[FLAGS], amiss[FLAGS];
		look(t.at, t.n, flags, amiss);
		if (advice == RIGHTS && (*amiss || strcmp(flags, plain)))
			wrong("it has the flags %s: %s", flags, amiss);
	}
	step = "looking at the rest";
	// Linux goes through mappings in their order, and stops at the first that refuses.
	int whole = told->answer == 0 || told->answer == ENOMEM;
	for (char *p = t.p; p < t.p + t.len; p += PAGE) {
		if (p >= t.at && p < t.at + t.n)
			continue;
		int keeps = advice == RIGHTS, may_keep = !whole || advice == MADV_FREE;
		if (!all_is(p, PAGE, keeps ? OLD : 0) && !(may_keep && all_is(p, PAGE, OLD)))
			wrong("byte %zd, which was not changed, is %#x", p - t.p, (unsigned char)*p);
	}
	// Where the pages themselves are somebody else's still, what is written now is not theirs.
	if (told->finish) {
		char *filled[1] = {t.p};
		if (told->finish != finish_child)
			memset(t.p, FILLED, t.len);
		told->finish(&t, filled, told->finish == finish_child ? 0 : 1);
	}
	check_rest(&t);
	step = "unmapping";
	MUST(munmap(t.p, t.len) == 0);
	for (int i = 0; i < 2; i++) {
		char *q = map(t.len);
		must_be_new(q, t.len);
		step = "writing new memory";
		memset(q, FILLED, t.len);
		MUST(munmap(q, t.len) == 0);
	}
	check_rest(&t);
	if (t.owner)
		unmap_by_number(t.owner, t.owned);
	if (t.written) {
		static char content[BIGGEST];
		memset(content, FILED, t.written);
		MUST(pwrite(file, content, t.written, 0) == (long)t.written);
	}
}

// ---- Modes by their names.

static int rounds = 200;

static void start(const char *name, int (*change)(struct turn *, int)) {
	mode = name;
	setvbuf(stdout, 0, _IOLBF, 0);
	struct sigaction action = {.sa_sigaction = struck, .sa_flags = SA_SIGINFO};
	MUST(sigaction(SIGSEGV, &action, 0) == 0 && sigaction(SIGBUS, &action, 0) == 0 && sigaction(SIGALRM, &action, 0) == 0);
	alarm(DEADLINE);
	char amiss[FLAGS];
	char *own = map_by_number(0, 16 * PAGE, RW, ANON, -1);
	memset(own, OLD, 16 * PAGE);
	look(own, 16 * PAGE, plain, amiss);
	if (*amiss)
		wrong("what the kernel maps: %s", amiss);
	spare = map_by_number(0, BIGGEST, PROT_NONE, ANON, -1);
	if (change == lay || change == register_buffer)
		make_file();
	if (change == write_from_outside)
		make_writer();
}

static int well(void) {
	printf("%s: as Linux promises\n", mode);
	return 0;
}

static int told_of(const char *name, const char *kind, const struct told *list, size_t count, int advice) {
	size_t len = strlen(kind);
	if (strncmp(name, kind, len) || name[len] != '-')
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(name + len + 1, list[i].name))
			continue;
		start(name, list[i].change);
		for (number = 0; number < rounds; number++)
			one_call(&list[i], advice);
		return well();
	}
	return -1;
}

static int run(const char *name) {
	for (size_t i = 0; i < COUNT(ways); i++) {
		size_t len = strlen(ways[i].name);
		if (strncmp(name, ways[i].name, len))
			continue;
		int after = strcmp(name + len, "-after") == 0;
		if (!after && strcmp(name + len, "-before"))
			continue;
		if (!(ways[i].when & (after ? AFTER : BEFORE)))
			continue;
		start(name, ways[i].change);
		for (number = 0; number < rounds; number++)
			one_round(&ways[i], after);
		return well();
	}
	int status = told_of(name, "dontneed", dontneed, COUNT(dontneed), MADV_DONTNEED);
	if (status < 0)
		status = told_of(name, "free", freed, COUNT(freed), MADV_FREE);
	if (status < 0)
		status = told_of(name, "protect", rights, COUNT(rights), RIGHTS);
	if (status >= 0)
		return status;
	fprintf(stderr, "unseen: there is no mode '%s': 'unseen list' says which there are\n", name);
	return 2;
}

static size_t list(char (*names)[64]) {
	size_t count = 0;
	for (size_t i = 0; i < COUNT(ways); i++) {
		if (ways[i].when & BEFORE)
			snprintf(names[count++], 64, "%s-before", ways[i].name);
		if (ways[i].when & AFTER)
			snprintf(names[count++], 64, "%s-after", ways[i].name);
	}
	for (size_t i = 0; i < COUNT(dontneed); i++)
		snprintf(names[count++], 64, "dontneed-%s", dontneed[i].name);
	for (size_t i = 0; i < COUNT(freed); i++)
		snprintf(names[count++], 64, "free-%s", freed[i].name);
	for (size_t i = 0; i < COUNT(rights); i++)
		snprintf(names[count++], 64, "protect-%s", rights[i].name);
	return count;
}

// Each in a process of its own, started anew: with what it has kept so far a library would know better.
static int each(char **names, int count) {
	int bad = 0, lacking = 0;
	char turns[16];
	setenv(ONE_OF_MANY, "1", 1);
	snprintf(turns, sizeof turns, "%d", rounds);
	for (int i = 0; i < count; i++) {
		pid_t one = fork();
		MUST(one >= 0);
		if (!one) {
			execl("/proc/self/exe", "unseen", names[i], turns, (char *)0);
			_exit(127);
		}
		int status;
		MUST(waitpid(one, &status, 0) == one);
		if (WIFSIGNALED(status))
			printf("%s: killed by signal %d\n", names[i], WTERMSIG(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
			lacking++;
		else
			bad += status != 0;
	}
	printf("of %d modes %d are not here, and %d are not as Linux promises\n", count, lacking, bad);
	return bad > 0;
}

int main(int argc, char **argv) {
	static char names[256][64];
	static char *all[256];
	size_t count = list(names);
	if (argc > 2 && argv[argc - 1][0] >= '0' && argv[argc - 1][0] <= '9')
		rounds = atoi(argv[--argc]);
	if (argc < 2) {
		fprintf(stderr, "usage: unseen MODE… | all | list, then ROUNDS\n");
		return 2;
	}
	setvbuf(stdout, 0, _IOLBF, 0);
	if (strcmp(argv[1], "list") == 0) {
		for (size_t i = 0; i < count; i++)
			puts(names[i]);
		return 0;
	}
	if (strcmp(argv[1], "all") == 0) {
		for (size_t i = 0; i < count; i++)
			all[i] = names[i];
		return each(all, (int)count);
	}
	if (argc > 2)
		return each(argv + 1, argc - 1);
	return run(argv[1]);
}
