// What is sent with MSG_ZEROCOPY is read from the program's pages until it is on its way: also where the library has not seen
// that the socket was readied for it, and the socket is closed before the buffer is unmapped. Whatever the flags, what is sent
// arrives, and a thread that waits for room can be cancelled.
#include "check.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY 0x4000000
#endif

#ifdef OWN_DLSYM
// The program's own: it finds nothing (0), as where the C library has it in a library that is not there; or it passes the
// question on (1), so that the next library is the next one after the program, which is the one that asks.
void *dlsym(void *handle, const char *name) {
	void *(*passed_on)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return OWN_DLSYM || handle == RTLD_DEFAULT ? passed_on(handle, name) : 0;
}
#endif

enum { LEN = 64 * PAGE, WAYS = 5 };

static ssize_t send_by(int way, int socket, char *p, size_t len, int flags) {
	struct iovec part = {p, len};
	struct mmsghdr messages = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
	int sent;
	switch (way) {
	case 0:
		return send(socket, p, len, flags);
	case 1:
		return sendto(socket, p, len, flags, 0, 0);
	case 2:
		return sendmsg(socket, &messages.msg_hdr, flags);
	case 3:
		sent = sendmmsg(socket, &messages, 1, flags);
		return sent == 1 ? (ssize_t)messages.msg_len : sent;
	default:
		return syscall(SYS_sendto, socket, p, len, flags, 0, 0);
	}
}

static void connect_two(int ends[2]) {
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof to;
	int listener = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
	// So little that most of what is sent stays in the sender's queue.
	MUST(listener >= 0 && setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
	MUST(bind(listener, (struct sockaddr *)&to, len) == 0 && listen(listener, 1) == 0);
	MUST(getsockname(listener, (struct sockaddr *)&to, &len) == 0);
	MUST((ends[0] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(connect(ends[0], (struct sockaddr *)&to, len) == 0);
	MUST((ends[1] = accept(listener, 0, 0)) >= 0 && close(listener) == 0);
}

// One and the same check for each way, in a process of its own, as nothing is kept any more after the first.
static void sends_what_was_there(int way) {
	int ends[2], one = 1;
	size_t sent = 0, got = 0;
	ssize_t more;
	char some[4096], *next, *p;
	connect_two(ends);
	MUST(raw(SYS_setsockopt, ends[0], SOL_SOCKET, 60 /* SO_ZEROCOPY */, (long)&one, sizeof one, 0) == 0);
	p = filled(LEN);
	memset(p, 'A', LEN);
	while (sent < LEN && (more = send_by(way, ends[0], p + sent, LEN - sent, MSG_ZEROCOPY | MSG_DONTWAIT)) > 0)
		sent += (size_t)more;
	MUST(sent > 0 && close(ends[0]) == 0 && munmap(p, LEN) == 0);
	next = map(LEN);
	memset(next, 'S', LEN);
	for (; (more = recv(ends[1], some, sizeof some, 0)) > 0; got += (size_t)more)
		for (ssize_t n = 0; n < more; n++)
			MUST(some[n] == 'A');
	MUST(more == 0 && got == sent);
}

// Without the flag they are as they were, and what is kept serves.
static void sends_without(int way) {
	int ends[2];
	char got[8] = "";
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	served(LEN);
	MUST(send_by(way, ends[0], "seven", 6, 0) == 6 && read(ends[1], got, sizeof got) == 6 && !strcmp(got, "seven"));
	served(LEN);
	MUST(close(ends[1]) == 0 && send_by(way, ends[0], "seven", 6, MSG_NOSIGNAL) == -1 && errno == EPIPE);
	MUST(close(ends[0]) == 0 && send_by(way, ends[0], "seven", 6, 0) == -1 && errno == EBADF);
}

struct waiting {
	int way, ends[2];
};

static void *waits_for_room(void *of) {
	struct waiting *waiting = of;
	static char much[LEN];
	for (;;)
		send_by(waiting->way, waiting->ends[0], much, LEN, 0);
	return 0;
}

static void is_cancelled(int way) {
	struct waiting waiting = {.way = way};
	pthread_t thread;
	void *end;
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, waiting.ends) == 0);
	MUST(pthread_create(&thread, 0, waits_for_room, &waiting) == 0);
	usleep(20000);
	MUST(pthread_cancel(thread) == 0 && pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED);
	close(waiting.ends[0]);
	close(waiting.ends[1]);
}

int main(void) {
	for (int way = 0; way < WAYS; way++) {
		sends_without(way);
		// syscall(2) is no cancellation point.
		if (way < 4)
			is_cancelled(way);
	}
	for (int way = 0; way < WAYS; way++) {
		pid_t child = fork();
		if (child > 0) {
			wait_for(child);
			continue;
		}
		served(LEN); // or this test shows nothing
		sends_what_was_there(way);
		return 0;
	}
	return 0;
}
