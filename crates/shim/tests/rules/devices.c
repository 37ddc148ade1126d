// Once the program handles faults itself, by /dev/userfaultfd or by a descriptor that it was given, everything is the
// kernel's; and so it is once it says from which node its memory is to come.
#include "check.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

static const size_t len = 16 * PAGE;

static void gone(char *p, const char *what) {
	if (madvise(p, len, MADV_DONTNEED) || resident(p, len) != 0 || munmap(p, len) || resident(p, len) != -1) {
		fprintf(stderr, "%s: it is kept\n", what);
		exit(1);
	}
}

static void by_the_device(void) {
	char *before = filled(len);
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev >= 0 && ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC) >= 0)
		gone(before, "with faults of its own, by the device");
}

static void given(void) {
	char *before = filled(len);
	struct uffdio_api api = {.api = UFFD_API};
	// Past the library, as if it came from another process.
	long uffd;
	__asm__ volatile("syscall" : "=a"(uffd) : "a"(SYS_userfaultfd), "D"(O_CLOEXEC) : "rcx", "r11", "memory");
	if (uffd >= 0) {
		MUST(ioctl(uffd, UFFDIO_API, &api) == 0);
		gone(before, "with faults of its own, by what it was given");
	}
}

static void bound(void) {
	unsigned long node = 1;
	char *before = filled(len);
	if (syscall(SYS_set_mempolicy, 2L, &node, 64L) == 0)
		gone(before, "of a program that is bound to a node");
}

// Strictly: a new mapping has no pages of another node.
static void moved(void) {
	unsigned long node = 1;
	char *p = served(len);
	MUST(syscall(SYS_mbind, p, len, 2L, &node, 64L, 1L) == 0 || errno == ENOSYS || errno == EPERM);
	MUST(zero(p, len));
}

int main(void) {
	void (*const each[])(void) = {by_the_device, given, bound, moved};
	for (int i = 0; i < 4; i++) {
		int status;
		pid_t child = fork();
		MUST(child >= 0);
		if (child == 0) {
			each[i]();
			exit(0);
		}
		MUST(waitpid(child, &status, 0) == child && status == 0);
	}
	return 0;
}
