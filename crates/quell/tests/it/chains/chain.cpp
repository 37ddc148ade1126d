// The same in C++: members, templates, a lambda, and a frame that catches.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <vector>

#define APART __attribute__((noinline, noipa))

static std::atomic<bool> done;
static volatile int sink;
static constexpr size_t len = 1 << 16;

struct Base {
	virtual ~Base() = default;
	virtual void work(int n) = 0;
};

template <typename T> APART void touch(T n)
{
	void *p = mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		throw std::runtime_error("no memory");
	std::memset(p, static_cast<int>(n), len);
	munmap(p, len);
	sink = sink + 1;
}

template <typename T> struct Worker : Base {
	std::vector<T> kept = std::vector<T>(4);

	APART void work(int n) override
	{
		std::function<void(T)> then = [this](T t) {
			touch<T>(t);
			kept[0] = t;
		};
		then(static_cast<T>(n));
		sink = sink + 1;
	}
};

APART void odd(Base &base, int n) { base.work(n); sink = sink + 1; }

APART void even(Base &base, int n)
{
	try {
		base.work(n);
	} catch (const std::exception &) {
		std::abort();
	}
	sink = sink + 1;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? std::atoi(argv[1]) : 1;
	Worker<long> longs;
	Worker<short> shorts;
	std::thread spins([] {
		while (!done.load(std::memory_order_relaxed)) {
		}
	});

	for (int i = 0; i < n; i++) {
		if (i & 1)
			odd(longs, i);
		else
			even(shorts, i);
	}
	done = true;
	spins.join();
	return 0;
}
