// A ring (io_uring) of which the library sees nothing: memory is registered with it, unmapped, and written by the kernel
// after that. No mapping that the program makes meanwhile has any of it.
#include "check.h"
#include <linux/io_uring.h>
#include <sys/uio.h>

enum { LEN = 16 * PAGE, MANY = 64 };

int main(void) {
	struct io_uring_params setup = {0};
	int file = memfd_create("file", 0);
	char *text = map(LEN);
	memset(text, 'X', LEN);
	MUST(file >= 0 && write(file, text, LEN) == LEN);
	for (int n = 0; n < 4; n++)
		served(LEN); // or this test shows nothing
	char *p = filled(LEN), *other = filled(LEN);
	int ring = (int)raw(SYS_io_uring_setup, 4, (long)&setup, 0, 0, 0, 0);
	if (ring < 0) {
		printf("not looked at: io_uring says %d\n", -ring);
		return 0;
	}
	struct iovec part = {p, LEN};
	size_t size = setup.sq_off.array + setup.sq_entries * sizeof(unsigned);
	char *queue = (char *)raw(SYS_mmap, 0, (long)size, RW, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *entries = (void *)raw(SYS_mmap, 0, (long)(setup.sq_entries * sizeof *entries), RW,
						   MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	MUST((uintptr_t)queue < -PAGE && (uintptr_t)entries < -PAGE);
	MUST(raw(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, (long)&part, 1, 0, 0) == 0);

	// From here on nothing is served: pages are pinned, and nobody can tell which.
	long before = counter(SERVED);
	MUST(munmap(p, LEN) == 0 && munmap(other, LEN) == 0);
	char *new[MANY];
	for (int n = 0; n < MANY; n++)
		MUST(zero(new[n] = map(LEN), LEN));
	MUST(counter(SERVED) == before);

	*entries = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED, .fd = file, .addr = (uintptr_t)p, .len = LEN};
	((unsigned *)(queue + setup.sq_off.array))[0] = 0;
	__atomic_store_n((unsigned *)(queue + setup.sq_off.tail), 1, __ATOMIC_RELEASE);
	MUST(raw(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) == 1);
	MUST(lseek(file, 0, SEEK_CUR) == LEN);
	for (int n = 0; n < MANY; n++)
		MUST(zero(new[n], LEN) && munmap(new[n], LEN) == 0);
	for (int n = 0; n < MANY; n++) {
		MUST(zero(p = map(LEN), LEN));
		memset(p, 7, LEN);
		MUST(munmap(p, LEN) == 0);
	}
	MUST(counter(SERVED) == before && counter(PINNED) == 1 && counter(DIRTY) == 0);
	return 0;
}
