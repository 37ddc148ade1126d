/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of LUF, as the patches of this series implement it (mm/luf.c, arch/x86/mm/tlb.c).
 *
 * What is modelled: a file page that one process maps, on CPUS processors that run it, go lazy, switch to another
 * process and back, and throw entries out; two reclaimers (kswapd, and one that reclaims directly) that unmap without a
 * flush, hold the frame back, flush later and free it; a writer that changes the file, by write(2) or by a write fault;
 * and a user who unmaps. A frame is a number; the page cache holds the frame of the page, or none. A processor reads
 * through its TLB, and fills that from the page table at any time.
 *
 * What must hold: no processor reads through an entry of a frame that was given to somebody else, or of one whose
 * content is no longer the file's, or after munmap(2) has returned.
 *
 * A step is one access to shared memory. That is x86 without its queues of stores: every store of the protocol is a
 * locked instruction, but for is_lazy, which a fence follows. What a barrier forbids is modelled by the step that would
 * come too early. -DM_... drops one barrier or check. Each must be found out, or the model says nothing.
 */

#ifndef CPUS
#define CPUS 2
#endif
#ifndef RECLAIMERS
#define RECLAIMERS 2		/* kswapd, and one that reclaims directly */
#endif
#ifndef UNMAPS
#define UNMAPS 1		/* of each reclaimer */
#endif
#define FRAMES 3		/* the page is read from disk so often */

/* Memory that several processors look at. */
byte pte = 1;			/* the frame that is mapped, 0 for none */
bool writable;			/* and may be written through that entry */
byte tlb_gen = 1;		/* mm->context.tlb_gen */
byte open = 1;			/* luf_open */
byte flushed = 1;		/* luf_flushed */
byte mapping_gen;		/* mapping->luf_gen */
byte mm_gen;			/* mm->luf_gen */
typedef set { bool cpu[CPUS] }
set noted[2];			/* luf_cpus */
bool mask[CPUS] = true;		/* mm_cpumask() */
bool lazy[CPUS];		/* cpu_tlbstate_shared.is_lazy */
bool ipi[CPUS];			/* asked to flush by LUF, and not answered; one asks at a time, with luf_lock */
bool ipi_mm[CPUS];		/* asked by flush_tlb_mm_range(), here with the page-table lock */
bool luf;			/* luf_lock */
bool ptl;			/* the page-table lock */
bool folio;			/* the folio's lock */
byte cache = 1;			/* the page cache: the frame of the page, 0 for none */
byte fresh = 2;			/* the next frame from the allocator */

/* For the property only. */
bool reused[FRAMES + 1];
bool outdated[FRAMES + 1];
bool gone;			/* munmap(2) has returned */

#define lock(l)   atomic { !l -> l = true }
#define unlock(l) l = false

/* --- A processor: arch/x86/mm/tlb.c, which is as it was --------------------------------------------------------- */

inline flush_if_behind(t)
{
	t = tlb_gen;
	if
	:: atomic { seen_gen < t -> tlb = 0; seen_gen = t; t = 0 }
	:: atomic { else -> t = 0 }
	fi
}

/* flush_tlb_func() */
inline answer(asked, t)
{
	if
	:: runs && is_lazy ->
		/* switches to init_mm */
		runs = false;
		mask[c] = false;
		is_lazy = false;
		lazy[c] = false
	:: runs && !is_lazy ->
#ifndef M_NO_FLUSH
		flush_if_behind(t)
#endif
	:: else
	fi;
	asked = false
}

/* A read fault: mm/memory.c, filemap_fault(). The page comes from the page cache, or from disk. */
inline read_fault()
{
	/* one step, for whoever waits for the lock answers interrupts meanwhile */
	atomic {
		!ptl && pte == 0 && !folio && !gone && (cache != 0 || fresh <= FRAMES) ->
		if
		:: cache == 0 -> cache = fresh; fresh++
		:: else
		fi;
		pte = cache;
		writable = false
	}
}

proctype Cpu(byte c)
{
	byte tlb = 0;		/* the frame of the entry, 0 for none */
	byte seen_gen = 1;	/* ctxs[].tlb_gen: entries are no older than that */
	bool runs = true;	/* cpu_tlbstate.loaded_mm is the process's */
	bool is_lazy = false;
	byte t;

end:	do
	/* the process runs: the walker fills, and it reads */
	:: atomic { runs && !is_lazy && tlb == 0 && pte != 0 -> tlb = pte }
	:: atomic { runs && !is_lazy && tlb != 0 ->
		assert(!reused[tlb]);
		assert(!outdated[tlb]);
		assert(!gone)
	   }
	:: atomic { runs && !is_lazy && tlb != 0 -> tlb = 0 }	/* thrown out */
	:: runs && !is_lazy && tlb == 0 && pte == 0 -> 
		if
		:: atomic { !ptl && pte == 0 && !folio && !gone && (cache != 0 || fresh <= FRAMES) -> read_fault() }
		:: atomic { ipi[c] || ipi_mm[c] -> skip }
		:: atomic { pte != 0 || gone || (cache == 0 && fresh > FRAMES) -> skip }
		fi

	:: ipi[c] -> answer(ipi[c], t)
	:: ipi_mm[c] -> answer(ipi_mm[c], t)

	/* enter_lazy_tlb(), and back: switch_mm_irqs_off() with was_lazy, interrupts off */
	:: atomic { runs && !is_lazy -> is_lazy = true; lazy[c] = true }
	:: runs && is_lazy ->
#ifdef M_LAZY_EARLY
		flush_if_behind(t);
		lazy[c] = false;
#else
		lazy[c] = false;
#ifndef M_LAZY_NO_CHECK
		flush_if_behind(t);
#endif
#endif
		is_lazy = false

	/* switch_mm_irqs_off() to another process: entries stay under their ASID */
	:: runs && !is_lazy ->
		runs = false;
		mask[c] = false
	/* and back */
	:: !runs ->
#ifdef M_SWITCH_EARLY
		flush_if_behind(t);
		mask[c] = true;
#else
		mask[c] = true;
#ifndef M_SWITCH_NO_CHECK
		flush_if_behind(t);
#endif
#endif
		runs = true
	od
}

/* flush_tlb_mm_range(): raises the generation, asks all that run it and are not lazy, and waits */
inline flush_mm(n)
{
	tlb_gen++;
	n = 0;
	do
	:: atomic { n < CPUS && mask[n] && !lazy[n] -> ipi_mm[n] = true }; atomic { !ipi_mm[n] -> n++ }
	:: atomic { n < CPUS && !(mask[n] && !lazy[n]) -> n++ }
	:: atomic { n == CPUS -> n = 0; break }
	od
}

/* --- Flushing: mm/luf.c, __luf_flush() --------------------------------------------------------------------------- */

#define pending(g) ((g) != 0 && (g) >= flushed)

inline luf_flush(g, n, now)
{
	if
	:: pending(g) ->
		lock(luf);
		if
		:: g >= flushed ->
			now = open;
#ifndef M_FLUSH_EARLY
#ifndef M_STAYS_OPEN
			open = now + 1;
#endif
#endif
#ifdef M_PUBLISH_EARLY
			flushed = now + 1;
#endif
			/* on_each_cpu_cond_mask(): asks all, then waits for all */
			do
			:: atomic { n < CPUS && noted[now & 1].cpu[n] && !lazy[n] -> ipi[n] = true; n++ }
			:: atomic { n < CPUS && !(noted[now & 1].cpu[n] && !lazy[n]) -> n++ }
			:: atomic { n == CPUS -> n = 0; break }
			od;
#ifdef M_FLUSH_EARLY
			open = now + 1;
#endif
			do
			:: n < CPUS ->
#ifndef M_NO_WAIT
				!ipi[n];
#endif
				atomic { noted[now & 1].cpu[n] = false; n++ }
			:: atomic { n == CPUS -> n = 0; break }
			od;
#ifndef M_PUBLISH_EARLY
			flushed = now + 1
#endif
		:: else
		fi;
		atomic { unlock(luf); now = 0 }
	:: else
	fi
}

/* --- Deferring: mm/rmap.c, mm/luf.c ------------------------------------------------------------------------------ */

inline raise(to, g)
{
	atomic {
		if
		:: to < g -> to = g
		:: else
		fi
	}
}

/* luf_defer(), with the page-table lock held */
inline defer(g, n)
{
#ifndef M_NO_BUMP
#ifndef M_BUMP_LATE
	tlb_gen++;
#endif
#endif
	do
	:: g = open;
		do
		:: atomic { n < CPUS -> noted[g & 1].cpu[n] = noted[g & 1].cpu[n] || mask[n]; n++ }
		:: atomic { n == CPUS -> n = 0; break }
		od;
#ifdef M_NO_RECHECK
#ifndef M_NO_MM_GEN
		raise(mm_gen, g);
#endif
#ifndef M_NO_MAPPING_GEN
		raise(mapping_gen, g);
#endif
		break
#else
#ifndef M_NO_MM_GEN
		raise(mm_gen, g);
#endif
#ifndef M_NO_MAPPING_GEN
		raise(mapping_gen, g);
#endif
		if
		:: open == g -> break
		:: else
		fi
#endif
	od;
#ifdef M_BUMP_LATE
	tlb_gen++
#endif
}

/* mm/vmscan.c, shrink_folio_list() */
proctype Reclaim()
{
	byte frame, plain, g, n, now, rounds;
	bool held;

end:	do
	:: rounds < UNMAPS && cache != 0 && !writable ->
		rounds++;
		lock(folio);
		lock(ptl);
		if
		:: pte != 0 && !writable && pte == cache ->
			frame = pte;
			pte = 0;
			defer(g, n)
		:: pte == 0 && cache != 0 ->
			/* nobody has it mapped: it is free at once */
			plain = cache;
			frame = cache;
			cache = 0;
			held = true
		:: else
		fi;
		unlock(ptl);
		if
		:: frame != 0 && plain == 0 ->
			/* __remove_mapping(): it may be in use */
			if
			:: cache = 0; held = true
			:: skip
#ifndef M_NO_UNDO
				; luf_flush(g, n, now)
#endif
			fi
		:: else
		fi;
		unlock(folio);
		if
		:: held && frame == plain -> reused[frame] = true
		:: held && frame != plain ->
			/* the quarantine drains, and the frame is the allocator's */
#ifndef M_NO_DRAIN
			luf_flush(g, n, now);
#endif
			reused[frame] = true
		:: else
		fi;
		atomic { frame = 0; plain = 0; held = false; g = 0 }
	od
}

/* --- Those who change the file, and the mapping -------------------------------------------------------------------- */

/* Frames that were not read yet will have the new content. */
inline content_changes()
{
	atomic {
		outdated[1] = cache != 1 && fresh > 1;
		outdated[2] = cache != 2 && fresh > 2;
		outdated[3] = cache != 3 && fresh > 3
	}
}

/* A page of the file, from the page cache or from disk, with its lock held. */
inline find()
{
	atomic {
		!folio && (cache != 0 || fresh <= FRAMES) ->
		folio = true;
		if
		:: cache == 0 -> cache = fresh; fresh++
		:: else
		fi
	}
}

proctype Writer()
{
	byte f, n, now, old;

end:	if
	/* write(2): __filemap_get_folio() with FGP_WRITE. It has returned when the property begins to hold. */
	:: find();
#ifndef M_NO_WRITE_HOOK
		luf_flush(mapping_gen, n, now);
#endif
		content_changes();
		unlock(folio)
	/* a write fault on a shared mapping: finish_fault() and wp_page_reuse() */
	:: find();
#ifdef M_FAULT_LATE
		lock(ptl);
		atomic { pte = cache; writable = true };
		unlock(ptl);
		content_changes();	/* another thread writes through it at once */
		luf_flush(mapping_gen, n, now);
#else
#ifndef M_NO_FAULT_HOOK
		luf_flush(mapping_gen, n, now);
#endif
		lock(ptl);
		atomic { pte = (gone -> 0 : cache); writable = true };
		unlock(ptl);
		content_changes();
#endif
		unlock(folio)
	/* truncate and direct IO: the file changes, then its page leaves the page cache, flushed. Who reads from disk before
	 * the change, and after, is not told apart until the call returns. */
	:: old = fresh;
		lock(folio);
		if
		:: cache != 0 ->
			lock(ptl);
			if
			:: pte != 0 ->
				/* zap_pte_range(), and tlb_finish_mmu() before the lock of the page is let go of */
				pte = 0;
				flush_mm(n)
			:: else
			fi;
			unlock(ptl);
			f = cache;
			cache = 0;
			reused[f] = true;
			f = 0
		:: else
		fi;
		unlock(folio);
#ifndef M_NO_INVALIDATE_HOOK
		luf_flush(mapping_gen, n, now);
#endif
		atomic {
			outdated[1] = old > 1;
			outdated[2] = old > 2;
			outdated[3] = old > 3;
			old = 0
		}
	/* or never */
	:: skip
	fi
}

/* munmap(2): zap_pte_range() calls flush_tlb_batched_pending() with the page-table lock held. */
proctype User()
{
	byte n, now;

end:	if
	:: lock(ptl);
#ifndef M_NO_MM_HOOK
		luf_flush(mm_gen, n, now);
#endif
		if
		:: pte != 0 ->
			pte = 0;
			flush_mm(n)
		:: else
		fi;
		gone = true;
		unlock(ptl)
	:: skip
	fi
}

init {
	byte c;

	atomic {
		c = 0;
		do
		:: c < CPUS ->
			run Cpu(c);
			c++
		:: else -> break
		od;
		run Reclaim();
#if RECLAIMERS > 1
		run Reclaim();
#endif
#ifdef WRITES	/* scripts/luf-model says which of them run together */
		run Writer();
#endif
#ifdef USES
		run User();
#endif
		skip
	}
}
