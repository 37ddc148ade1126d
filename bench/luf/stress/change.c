// Who changes files, in every way that there is.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stress.h"

static int write_page(int file, int page, const void *buffer, int flags)
{
	int fd = open(paths[file], O_RDWR | O_CLOEXEC | flags), done;

	if (fd < 0)
		return 0;
	done = pwrite(fd, buffer, PAGE, (off_t)page * PAGE) == PAGE;
	close(fd);
	return done;
}

static int store(int file, int page, const void *buffer)
{
	int fd = opened(file, O_RDWR);
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)page * PAGE);

	close(fd);
	if (at == MAP_FAILED)
		return 0;
	// half of the time it is read first, so that the store finds a read-only entry
	if (below(2))
		(void)*(volatile char *)at;
	memcpy(at, buffer, PAGE);
	munmap(at, PAGE);
	return 1;
}

static int punch(int file, int page)
{
	int fd = opened(file, O_RDWR);
	int done = !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page * PAGE, PAGE);

	close(fd);
	return done;
}

// Of the last page only: others would go, too.
static int truncated(int file, int page)
{
	int fd = opened(file, O_RDWR);
	int done = !ftruncate(fd, (off_t)page * PAGE) && !ftruncate(fd, (off_t)(page + 1) * PAGE);

	close(fd);
	return done;
}

static void change(enum count how, int file, int page, void *buffer)
{
	struct state *s = &shared->pages[file][page];
	uint64_t now, next;
	int done = 0;

	if (pthread_mutex_lock(&s->changing))
		fail("pthread_mutex_lock");
	now = atomic_load(&s->over);
	next = (now & ~1ull) + (how == PUNCH || how == TRUNCATE ? 3 : 2);
	atomic_store(&s->begun, next);
	make_page(buffer, file, page, next);
	if (how == WRITE || how == DIRECT)
		done = write_page(file, page, buffer, how == DIRECT ? O_DIRECT : 0);
	else if (how == STORE)
		done = store(file, page, buffer);
	else if (how == PUNCH)
		done = punch(file, page);
	else
		done = truncated(file, page);
	if (done)
		atomic_store(&s->over, next);
	else
		atomic_store(&s->begun, now);
	counted(done ? how : REFUSED, 1);
	pthread_mutex_unlock(&s->changing);
}

void *changer(void *seed)
{
	void *buffer;

	random_state = mix((uintptr_t)seed);
	if (posix_memalign(&buffer, PAGE, PAGE))
		fail("posix_memalign");
	while (!is_over()) {
		enum count how = WRITE + below(TRUNCATE - WRITE + 1);

		change(how, below(FILES), how == TRUNCATE ? PAGES - 1 : below(PAGES - 1), buffer);
		usleep(below(3000));
	}
	return NULL;
}

// One more file is never changed, but another put in its place: who has mapped the old one goes on reading that.
void *replacer(void *seed)
{
	uint64_t version = 2;
	char path[sizeof(paths[0]) + 4];
	void *buffer;

	random_state = mix((uintptr_t)seed);
	if (posix_memalign(&buffer, PAGE, PAGE))
		fail("posix_memalign");
	snprintf(path, sizeof(path), "%s.new", paths[FILES]);
	while (!is_over()) {
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), done = fd >= 0;

		version += 2;
		for (int page = 0; done && page < PAGES; page++) {
			make_page(buffer, FILES, page, version);
			done = write(fd, buffer, PAGE) == PAGE;
		}
		if (fd >= 0)
			close(fd);
		if (done && !rename(path, paths[FILES])) {
			atomic_store(&shared->replaced, version);
			counted(RENAME, 1);
		} else {
			counted(REFUSED, 1);
		}
		usleep(below(400000));
	}
	return NULL;
}
