// Takes a CPU and memory away and gives them back, as long as it lasts. For a guest: it changes the machine.
#include <fcntl.h>
#include <unistd.h>

#include "stress.h"

static int set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), done;

	if (fd < 0)
		return 0;
	done = write(fd, value, strlen(value)) > 0;
	close(fd);
	return done;
}

void *shaker(void *seed)
{
	const char *cpu = "/sys/devices/system/cpu/cpu3/online";
	char memory[64];

	random_state = mix((uintptr_t)seed);
	while (!is_over()) {
		if (set(cpu, "0")) {
			counted(CPU_OFFLINE, 1);
			usleep(100000 + below(400000));
			set(cpu, "1");
		}
		usleep(below(2000000));
		// what the kernel can't do without it refuses
		snprintf(memory, sizeof(memory), "/sys/devices/system/memory/memory%d/state", (int)below(6));
		if (set(memory, "offline")) {
			counted(MEMORY_OFFLINE, 1);
			usleep(100000 + below(400000));
			while (!set(memory, "online") && !is_over())
				usleep(100000);
		}
		usleep(below(1000000));
	}
	// both as they were
	set(cpu, "1");
	return NULL;
}
