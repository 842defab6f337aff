/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GATE_H
#define GATE_H

/*
 * What a worker waits for before the GPU may have its work, and how: one loop for all of it.
 *
 *	struct gate_wait wait = gate_wait(GATE_LOOP, session);
 *
 *	while (!may_go_on() && gate_again(&wait))
 *		;
 *	gate_end(&wait);
 *
 * Invariant: a wait ends when its condition holds, at the limit of its row or its own limit, when
 * the device is lost, or when its session ends.
 *
 * Any worker, and the deferred thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct session;

/*
 * In the order in which a launch passes them. Behind the last one, just before the driver's call,
 * the launch looks once more whether the GPU is closed.
 */
enum gate {
	GATE_BACKGROUND, /* a background session has enough on the GPU (background.h) */
	GATE_PARKED,     /* a host function of the stream runs (server/stream/park.h) */
	GATE_DRAIN,      /* while a stream is blocked: the stream is far ahead of the GPU */
	GATE_CLOSED,     /* the GPU is closed for a quiet call or lone work (closed_gpu.h) */
	GATE_PROBATION,  /* it is not the turn of the session's program (probation.h) */
	GATE_PRINT,      /* other clients print (server/stream/printf_capture.h) */
	GATE_LOOP,       /* a loop of another client is on the GPU (loop_turn.h) */
	GATE_BLOCKED,    /* no more streams may be blocked (blocked_streams.h) */

	/* Lone work, and quiet calls (quiet.h). */
	GATE_EXCLUSIVE, /* a stream is blocked */
	GATE_LAUNCHING, /* other workers give kernels to the GPU, which is closed now */
	GATE_WORK,      /* work on the GPU, which is closed */
	GATE_OPEN_WORK, /* work on the GPU, which is open again */
	GATE_OPEN,      /* the GPU has to be open for some time */

	/* Not for a launch. */
	GATE_LOOP_END, /* a loop whose end no event tells */
	GATE_ARRAY,    /* the bytes of a new array are overwritten (server/array/array.c) */
	GATE_REST,     /* all work of a session, as it ends or beside blocked streams */
	GATE_IDLE,     /* the same, before unused memory of the session is given back */
	GATE_MAPPINGS, /* closing mappings (server/memory/virtual.c) */
	GATE_DEFERRED, /* deferred calls, which give something back (deferred.h) */
	GATE_ARRAYS,   /* ends of arrays, before a query of free memory (server/memory/memory.c) */
	GATE_CLOCK,    /* an event of now (server/stream/event_times.c) */
	GATE_MOVE,     /* bytes between a GPU and the store (server/share/mover.c) */
	GATE_TURN,     /* another session stops, and evicts memory (server/share/eviction_turn.c) */
	GATE_VICTIM,   /* another session evicts memory (server/share/eviction_choice.c) */
	GATE_SPACE,    /* no session can make space now (server/memory/away.c) */
	GATES
};

/* After this time server.log says what waits. */
#define GATE_SAY_NS UINT64_C(1000000000)

/* One wait, on the stack of its thread. It may pass several gates. */
struct gate_wait {
	enum gate gate;
	struct session *session; /* NULL: the server's own */
	bool ignores_end;        /* it does not give up when the session ends */
	bool is_noted;           /* session::waits_for_others is set */
	bool is_said;            /* server.log has said that it waits */
	uint64_t start_ns;       /* 0: it has not waited yet */
	uint64_t gate_ns;        /* since when it waits at this gate; 0: not yet */
	uint64_t end_ns;         /* it gives up then; 0: no limit */
	uint64_t until_ns;       /* it leaves this gate then; 0: no limit but that of the row */
	uint64_t sleep_ns;       /* until the next look */
};

static inline struct gate_wait gate_wait(enum gate gate, struct session *session)
{
	return (struct gate_wait){.gate = gate, .session = session};
}

/* The wait goes to another gate, until `until_ns' (0: no limit but that of the row). */
void gate_next(struct gate_wait *wait, enum gate gate, uint64_t until_ns);

/*
 * What it waits for has not come: sleeps until the next look. The caller holds no lock, which
 * another client may need for its work to end. False: do not look again.
 */
bool gate_again(struct gate_wait *wait);

/* Whether it has to give up, wherever it waits. */
bool gate_is_over(const struct gate_wait *wait);

/* For how long it has waited. */
uint64_t gate_waited_ns(const struct gate_wait *wait);

/* The next look comes as soon as the first one did: something has come. */
void gate_look_soon(struct gate_wait *wait);

/* Says once in server.log what a wait of a second is for: "Client ... `text'". */
void gate_say(struct gate_wait *wait, const char *text);

/* The same: it is held up by that client, of which the row names the cause. */
void gate_say_held_up(struct gate_wait *wait, pid_t pid, uint32_t id);

/* The wait is over. */
void gate_end(struct gate_wait *wait);

#endif
