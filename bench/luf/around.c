// Runs a program, several times at once, and says what the kernel counted meanwhile.
//
//   around LUF_MAX TIMES COMMAND [ARGUMENT...]
//
// It sets vm.luf_max (if the kernel has it), drops the page cache, runs, and prints one line of JSON, as scan does: bad is how
// many of the programs failed. What they print goes to stderr.
#include <sys/wait.h>

#include "common.h"
#include "counts.h"

int main(int argc, char **argv)
{
	struct counts before, after;
	struct timespec start;
	int bad = 0, status;
	double seconds;

	if (argc < 4) {
		fprintf(stderr, "usage: around LUF_MAX TIMES COMMAND [ARGUMENT...]\n");
		return 2;
	}
	begin_run(argv[1]);
	look(&before);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < atoi(argv[2]); i++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (child == 0) {
			dup2(2, 1);
			execvp(argv[3], argv + 3);
			_exit(127);
		}
	}
	while (wait(&status) > 0)
		bad += status != 0;
	seconds = since(&start);
	look(&after);

	printf("{\"mode\":\"around\",\"luf_max\":%s,\"seconds\":%.3f,\"reads\":0,\"bad\":%d", argv[1], seconds, bad);
	print_counts(&before, &after);
	return bad != 0;
}
