// A limit of addresses (RLIMIT_AS, RLIMIT_DATA): what the library keeps leaves the C library's own mappings, which
// it does not see, their room. So also where the program sets the limit later.
#include "check.h"
#include <sys/resource.h>

#define MB (1UL << 20)

static void set(int resource, size_t to) {
	struct rlimit limit = {to, to};
	MUST(setrlimit(resource, &limit) == 0);
}

// Maps and unmaps far more than the library may keep in memory, twice.
static void churn(void) {
	char *all[33];
	for (int round = 0; round < 2; round++) {
		for (int n = 0; n < 33; n++)
			memset(all[n] = map(30 * MB), 1, PAGE);
		for (int n = 0; n < 33; n++)
			MUST(munmap(all[n], 30 * MB) == 0);
	}
}

static void *nothing(void *arg) { return arg; }

static void large(void) {
	char *block = malloc(700 * MB);
	MUST(block);
	free(block);
	pthread_t thread;
	pthread_attr_t attr;
	MUST(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 600 * MB) == 0);
	MUST(pthread_create(&thread, &attr, nothing, 0) == 0 && pthread_join(thread, 0) == 0);
}

int main(int argc, char **argv) {
	if (argc > 1) {
		churn();
		large();
		// Nearly used up: nothing is kept any more.
		char *most = map(1420 * MB), *p = 0;
		for (int i = 0; i < 500; i++) {
			p = filled(MB);
			MUST(munmap(p, MB) == 0);
			usleep(500);
		}
		MUST(resident(p, MB) == -1);
		MUST(munmap(most, 1420 * MB) == 0);
		return 0;
	}
	int resources[] = {RLIMIT_AS, RLIMIT_DATA};
	for (int n = 0; n < 2; n++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			set(resources[n], 1500 * MB);
			execl("/proc/self/exe", "limits", "run", NULL);
			_exit(1);
		}
		MUST(waitpid(child, &status, 0) == child && status == 0);
	}
	churn();
	set(RLIMIT_AS, 1500 * MB);
	for (int i = 0; i < 500; i++) {
		MUST(munmap(filled(PAGE), PAGE) == 0);
		usleep(500);
	}
	large();
	return 0;
}
