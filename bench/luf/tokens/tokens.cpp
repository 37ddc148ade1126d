// Generates tokens with a model that is mapped, and checks that they are what the first run generated.
//
//   tokens MODEL N FIRST
//
// Greedy, in one thread, from a fixed token: what comes out is a function of the weights. FIRST is the file with what came
// out first, which is made if it is not there. Each line is a token and a hash of all that the model said of the next one,
// so that a weight that was read wrong shows even where it does not change the token.
//
// Exit status: 0 the same, 1 not, 2 it could not be done.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "llama.h"

[[noreturn]] static void fail(const std::string &doing)
{
	fprintf(stderr, "tokens: %s\n", doing.c_str());
	exit(2);
}

static void tell(ggml_log_level level, const char *text, void *)
{
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(text, stderr);
}

// FNV-1a
static uint64_t hash(const float *values, size_t n)
{
	uint64_t sum = 0xcbf29ce484222325;
	const unsigned char *bytes = reinterpret_cast<const unsigned char *>(values);

	for (size_t i = 0; i < n * sizeof(float); i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3;
	return sum;
}

static std::string generate(const char *path, int n)
{
	llama_model_params how = llama_model_default_params();
	how.load_mode = LLAMA_LOAD_MODE_MMAP;
	// no copies of the weights in another order: they would be anonymous memory
	how.use_extra_bufts = false;
	llama_model *model = llama_model_load_from_file(path, how);
	if (!model)
		fail(std::string("can't load ") + path);

	llama_context_params with = llama_context_default_params();
	with.n_ctx = n + 1;
	with.n_batch = with.n_ubatch = 1;
	with.n_threads = with.n_threads_batch = 1;
	llama_context *context = llama_init_from_model(model, with);
	if (!context)
		fail("can't make a context");

	const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
	llama_token token = 1;
	std::string out;
	for (int i = 0; i < n; i++) {
		if (llama_decode(context, llama_batch_get_one(&token, 1)))
			fail("can't decode");
		const float *logits = llama_get_logits_ith(context, -1);
		if (!logits)
			fail("no logits");
		token = std::max_element(logits, logits + vocabulary) - logits;
		// of what is no number, one is as good as another, and nothing would be checked
		if (!std::isfinite(logits[token]))
			fail("a logit is not finite");
		char line[64];
		snprintf(line, sizeof(line), "%d %016llx\n", token, (unsigned long long)hash(logits, vocabulary));
		out += line;
	}
	llama_free(context);
	llama_model_free(model);
	return out;
}

// Whether the file holds this. The first of several at once makes it, whole or not at all.
static bool same(const std::string &out, const std::string &first)
{
	const std::string mine = first + "." + std::to_string(getpid());

	if (access(first.c_str(), F_OK)) {
		std::ofstream file(mine);
		file << out;
		file.close();
		if (!file || (link(mine.c_str(), first.c_str()) && errno != EEXIST))
			fail(mine + ": " + strerror(errno));
		unlink(mine.c_str());
	}
	std::ifstream file(first);
	return out == std::string(std::istreambuf_iterator<char>(file), {});
}

int main(int argc, char **argv)
{
	if (argc != 4 || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: tokens MODEL N FIRST\n");
		return 2;
	}
	llama_log_set(tell, nullptr);
	llama_backend_init();
	const std::string out = generate(argv[1], atoi(argv[2]));
	if (same(out, argv[3]))
		return 0;
	fprintf(stderr, "tokens: not what the first run generated:\n%s", out.c_str());
	return 1;
}
