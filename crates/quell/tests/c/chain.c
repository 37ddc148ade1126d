/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * chain COUNT FILE: a process that forks the next and ends, so many times; the last one waits. All of it for as long as
 * there is the file.
 */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long left = argc == 3 ? atol(argv[1]) : 0;

	for (; left > 0 && access(argv[2], F_OK) == 0; left--) {
		pid_t pid = fork();

		if (pid != 0)
			_exit(pid < 0);
	}
	while (argc == 3 && access(argv[2], F_OK) == 0)
		usleep(10000);
	return 0;
}
