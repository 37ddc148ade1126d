/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * Pieces of the stacks of programs, for the loader to unwind by .eh_frame: most programs keep no frame pointers.
 *
 * A piece is some pages of the stack from its top on, with the registers. The loader unwinds it and writes, for the next
 * time, the return addresses and their places into a map. Then a stack at the same instruction, with the same stack
 * pointer, in the same address space, and with the same return addresses at the same places is the same one: the
 * unwinder finds each frame by the one before (.eh_frame says where, by the instruction). There may be several such
 * for one instruction and stack pointer, for callers with frames of one size. Beyond MEMO_WORDS and MEMO_FRAMES nothing
 * is compared, so that of the answers from memory one in PIECE_CHECK is compared with a new piece, and the loader
 * counts those that were wrong.
 *
 * A piece costs some microseconds, so each CPU has a budget for them. Where there is no room, or no budget, or a
 * stack that the loader has not unwound yet, frame pointers are used.
 *
 * The rules of account.bpf.c hold here: maps are allocated in advance, loops have constant bounds, and user memory is
 * read without faulting (bpf_probe_read_user()): a page that is not there is not in the piece. The loader may replace an
 * entry while it is read here. Then the words that are compared may be of two stacks, and equal neither.
 *
 * The loader's twin of this file is unwind/piece.rs.
 */
#ifndef QUELL_PIECES_H
#define QUELL_PIECES_H

#define PIECE_PAGE 4096
#define PIECE_PAGES 8
#define PIECE_BYTES (PIECE_PAGE * PIECE_PAGES)
/* Frames by frame pointers, for where they reach farther than the piece. */
#define PIECE_FRAMES 64
#define MAX_KNOWN_STACKS 8192
#define PIECE_CHECK 512
/* Stacks with one instruction and stack pointer that are told apart. */
#define STACK_VARIANTS 8
/* So many return addresses are compared, not farther up than so many words. */
#define RETURN_FRAMES 24
#define RETURN_WORDS 256
/* A CPU may take one piece in so many ns on average, and so many ns' worth of them at once. */
#define PIECE_EVERY_NS 500000
#define PIECE_BURST_NS 32000000
/* Numbers of stacks of which there is a piece have this bit, and are no numbers of the kernel's table of stacks. */
#define STACK_IN_PIECES (1 << 30)

struct stack_key {
	u64 mm;
	u64 ip;
	u64 sp;
	u32 variant;
	u32 zero;
};

struct stack_piece {
	u32 number; /* with STACK_IN_PIECES */
	u32 tgid;
	u16 frames;
	u16 kind; /* PIECE_* */
	u32 pages; /* a bit for each that could be read: a large array may lie on some that nobody has touched */
	struct stack_key key; /* with ip and sp */
	u64 bp;
	u64 base; /* where they lay: from the beginning of the page on that sp is in */
	u64 caller; /* the word at sp */
	u64 walked[PIECE_FRAMES];
	u8 stack[PIECE_BYTES];
};

enum {
	PIECE_NEW,
	PIECE_AGAIN,  /* of a stack that was taken for the one of this number */
	PIECE_SINGLE, /* its number is not given again */
};

/* Whether the loader has unwound a stack. */
enum {
	STACK_PENDING,
	STACK_UNWOUND,
	STACK_WALKED, /* its frame pointers tell more */
};

struct known_stack {
	u32 number;
	u32 state;
	u32 answers;
	u16 frames; /* that are compared */
	u16 reach; /* how far up they lie, bytes */
	u16 at[RETURN_FRAMES]; /* words above sp */
	u64 ips[RETURN_FRAMES];
};

struct stack_words {
	u64 words[RETURN_WORDS];
	struct known_stack fresh; /* too large for the stack, too */
};

_Static_assert(sizeof(struct stack_piece) == 72 + 8 * PIECE_FRAMES + PIECE_BYTES, "as in unwind/piece.rs");
_Static_assert(sizeof(struct stack_key) == 32, "as in unwind/piece.rs");
_Static_assert(sizeof(struct known_stack) == 16 + 10 * RETURN_FRAMES, "as in unwind/piece.rs");

/* The loader sets the sizes of both: 1 and the least where pieces are not taken. */
DEFINE_HASH(known_stacks, struct stack_key, struct known_stack, MAX_KNOWN_STACKS, 0);
DEFINE_RING_BUFFER(stack_pieces);

/* How many numbers were given. */
DEFINE_ARRAY(stack_numbers, u32, 1, 0);

/* Until when the budget of each CPU is spent, ns. */
DEFINE_PER_CPU_ARRAY(piece_budgets, u64, 1);

/* One for the programs that the program of samples may interrupt, and one for that program. */
DEFINE_PER_CPU_ARRAY(stack_scratches, struct stack_words, 2);

/*
 * Takes a piece from this CPU's budget, if there is one left. The budget is the time from *until to now, of which the last
 * PIECE_BURST_NS count. Where the program of samples comes between reading and writing, one piece too many
 * is taken.
 */
static __always_inline bool may_take_piece(void)
{
	u64 now = bpf_ktime_get_ns(), spent;
	u32 zero = 0;
	u64 *until = bpf_map_lookup_elem(&piece_budgets, &zero);

	if (!until || *until > now)
		return false;
	spent = *until + PIECE_BURST_NS < now ? now - PIECE_BURST_NS : *until;
	*until = spent + PIECE_EVERY_NS;
	return true;
}

/* A number that no stack has had, until they begin again after 2^30. With STACK_IN_PIECES it is never 0. */
static __always_inline u32 new_number(void)
{
	u32 zero = 0, *numbers = bpf_map_lookup_elem(&stack_numbers, &zero);

	return numbers ? (__sync_fetch_and_add(numbers, 1) & (STACK_IN_PIECES - 1)) | STACK_IN_PIECES : 0;
}

/* Sends a piece. False if there is no room for it. */
static __noinline bool take_piece(void *ctx, struct task_struct *t, struct stack_key *key, u32 number, u32 kind)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	struct stack_piece *p;
	u64 word = 0;
	long got;
	u32 i;

	p = bpf_ringbuf_reserve(&stack_pieces, sizeof(*p), 0);
	if (!p)
		return false;
	p->number = number;
	p->tgid = t->tgid;
	p->kind = kind;
	p->key = *key;
	p->bp = regs->bp;
	p->base = key->sp & ~(u64)(PIECE_PAGE - 1);
	bpf_probe_read_user(&word, sizeof(word), (void *)key->sp);
	p->caller = word;
	got = bpf_get_stack(ctx, p->walked, sizeof(p->walked), BPF_F_USER_STACK);
	p->frames = got > 0 ? (u32)got / 8 : 0;
	p->pages = 0;
	for (i = 0; i < PIECE_PAGES; i++) {
		if (!bpf_probe_read_user(p->stack + i * PIECE_PAGE, PIECE_PAGE, (void *)(p->base + i * PIECE_PAGE)))
			p->pages |= 1 << i;
	}
	bpf_ringbuf_submit(p, BPF_RB_NO_WAKEUP);
	return true;
}

/* Whether all return addresses are in the same places as in the known stack. */
__noinline int returns_alike(struct known_stack *known, struct stack_words *s)
{
	u32 i, at, n;

	if (!known || !s)
		return 0;
	n = known->frames;
	for (i = 0; i < RETURN_FRAMES; i++) {
		if (i >= n)
			return 1;
		at = known->at[i];
		if (at >= RETURN_WORDS || s->words[at] != known->ips[i])
			return 0;
	}
	return 1;
}

/*
 * The number of this thread's user stack, of which the loader has, or gets, a piece; 0 where only frame pointers can be used.
 * The thread must be one of a program (is_of_a_program()). Another piece is taken of a stack that the loader has not unwound
 * yet, with a number for this time alone; with `always` also of a stack that finds no room among the known ones. `scratch` is 1
 * in the program of samples, and 0 in those that it may interrupt.
 */
static __noinline s32 stack_in_pieces(void *ctx, struct task_struct *t, u32 scratch, bool always)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	struct stack_key key = { .mm = (u64)t->mm, .ip = regs->ip, .sp = regs->sp };
	struct known_stack *known = NULL;
	struct stack_words *s;
	u32 number, reach, v;

	/* 32-bit programs are unwound otherwise */
	if (t->thread_info.status & TS_COMPAT)
		return 0;
	s = bpf_map_lookup_elem(&stack_scratches, &scratch);
	if (!s)
		return 0;
	for (v = 0; v < STACK_VARIANTS; v++) {
		key.variant = v;
		known = bpf_map_lookup_elem(&known_stacks, &key);
		if (!known || known->state == STACK_PENDING)
			break;
		reach = known->reach;
		/* a test of its own, of the very register that is passed on: else the verifier learns no bound */
		barrier_var(reach);
		if (reach > sizeof(s->words))
			continue;
		if (bpf_probe_read_user(s->words, reach, (void *)key.sp) || !returns_alike(known, s))
			continue;
		if (known->state == STACK_WALKED)
			return 0;
		number = known->number;
		if (!(++known->answers % PIECE_CHECK) && may_take_piece())
			take_piece(ctx, t, &key, number, PIECE_AGAIN);
		return number;
	}
	/* too many stacks look alike, and their pieces would never end */
	if (v == STACK_VARIANTS && !always)
		return 0;
	if (!may_take_piece())
		return 0;
	number = new_number();
	if (!known) {
		__builtin_memset(&s->fresh, 0, sizeof(s->fresh));
		s->fresh.number = number;
		/* this fails while the map is full until the loader empties it, or if another CPU has just entered the stack */
		if (!bpf_map_update_elem(&known_stacks, &key, &s->fresh, BPF_NOEXIST)) {
			if (take_piece(ctx, t, &key, number, PIECE_NEW))
				return number;
			bpf_map_delete_elem(&known_stacks, &key);
			return 0;
		}
		if (!always)
			return 0;
	}
	return take_piece(ctx, t, &key, number, PIECE_SINGLE) ? number : 0;
}

#endif
