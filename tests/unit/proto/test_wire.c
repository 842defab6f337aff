/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the generated code of each message: send_X() into dispatch_message() and back,
 * every rule kept and broken on both sides, every prefix, a word too many, and each
 * word overwritten with dangerous values. Messages lie in memory of exactly their
 * size, so that a sanitizer sees a read past the end.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatch.h"
#include "client/transport/call.h"
#include "tests/proto/rules.h"

bool rules_strict;

static struct {
	unsigned n_done;
	uint16_t op;
	unsigned n_placed;
	unsigned n_wrong; /* in the test that runs */
	unsigned n_passed;
	unsigned n_failed;
} run;

/* The address does not matter: only the arguments from the generated code are checked. */
static char session;

void rules_expect(bool is_so, const char *what, int line)
{
	if (is_so)
		return;
	run.n_wrong++;
	printf("line %d: not so: %s\n", line, what);
}

void rules_done(uint16_t op, const void *of)
{
	run.n_done++;
	run.op = op;
	EXPECT(of == &session);
}

void recorded_keep(_unused_ struct session *of, _unused_ const struct message_head *head,
	_unused_ const struct reply *reply)
{
}

void *object(uint32_t id)
{
	return (void *)(0x10000ul + id);
}

void fill(void *buffer, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)buffer)[i] = (uint8_t)(seed + i);
}

bool is_filled(const void *buffer, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++)
		if (((const uint8_t *)buffer)[i] != (uint8_t)(seed + i))
			return false;
	return true;
}

void touch(const void *buffer, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t byte = ((const volatile uint8_t *)buffer)[i];

		(void)byte;
	}
}

const char *long_string(uint32_t size)
{
	static char string[2 * MESSAGE_MAX];

	memset(string, 'a', size - 1);
	string[size - 1] = '\0';
	return string;
}

const void *long_bytes(void)
{
	static const uint64_t bytes[MESSAGE_MAX / 8];

	return bytes;
}

/* ---- the client's runtime, without a ring */

static struct message_head *assemble(const struct message_head *msg, uint32_t msg_size,
	const struct ring_part *tails, unsigned n_tails)
{
	uint32_t size = msg_size, at = msg_size;
	struct message_head *whole;

	for (unsigned i = 0; i < n_tails; i++)
		size += ALIGN_UP(tails[i].size, MESSAGE_ALIGN);
	whole = calloc(1, size);
	if (!whole)
		abort();
	memcpy(whole, msg, msg_size);
	for (unsigned i = 0; i < n_tails; i++) {
		memcpy((uint8_t *)whole + at, tails[i].data, tails[i].size);
		at += ALIGN_UP(tails[i].size, MESSAGE_ALIGN);
	}
	whole->size = size;
	run.n_placed++;
	return whole;
}

/* Replies come from a page with the bytes of earlier replies. */
static void serve_into(struct message_head *msg, struct reply *reply)
{
	const char *why = NULL;
	int r;

	memset(reply, 0xa5, sizeof(*reply));
	r = dispatch_message((struct session *)&session, msg, reply, &why);
	if (r < 0)
		printf("%s refused: %s\n", op_name(msg->op), why);
	EXPECT(r == 0);
	free(msg);
}

CUresult call_post(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails)
{
	struct reply reply;

	serve_into(assemble(msg, msg_size, tails, n_tails), &reply);
	EXPECT(reply.size == 0);
	return (CUresult)reply.result;
}

CUresult call_ask(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails, void *ret_fixed, uint32_t fixed_size, void *ret_tail, uint32_t tail_max,
	uint32_t *ret_tail_size)
{
	struct message_head *whole = assemble(msg, msg_size, tails, n_tails);
	struct reply reply;

	whole->reply = 1;
	serve_into(whole, &reply);
	EXPECT(reply.size >= fixed_size && reply.size - fixed_size <= tail_max);
	if (fixed_size > 0)
		memcpy(ret_fixed, reply.body, fixed_size);
	if (ret_tail) {
		memcpy(ret_tail, reply.body + fixed_size, reply.size - fixed_size);
		*ret_tail_size = reply.size - fixed_size;
	}
	return (CUresult)reply.result;
}

/* ---- tests of one message */

/* Serves a copy in memory of exactly its size. */
static int serve_copy(const void *message, uint32_t size, struct reply *reply, const char **ret_why)
{
	struct message_head *copy = malloc(size);
	int r;

	if (!copy)
		abort();
	memcpy(copy, message, size);
	run.n_done = 0;
	r = dispatch_message((struct session *)&session, copy, reply, ret_why);
	free(copy);
	return r;
}

static void test_round_trip(const struct rule_case *one)
{
	rules_strict = true;
	EXPECT(one->send(0) == CUDA_SUCCESS);
	EXPECT(run.n_placed == 1 && run.n_done == 1);
	EXPECT(!strcmp(op_name(run.op), one->name));
}

static void test_valid(const struct rule_case *one)
{
	uint64_t message[MESSAGE_MAX / 8];
	uint32_t size = one->make(message);
	struct reply reply;
	const char *why = "nothing";

	rules_strict = true;
	EXPECT(serve_copy(message, size, &reply, &why) == 0);
	EXPECT(run.n_done == 1);
	EXPECT(reply.result == CUDA_SUCCESS);
}

static void test_rule(const struct rule_case *one, const struct rule *rule)
{
	uint64_t message[MESSAGE_MAX / 8];
	uint32_t size = one->make(message);
	struct reply reply;
	const char *why = "nothing";
	int r;

	rules_strict = true;
	memcpy((uint8_t *)message + rule->offset, &rule->value, rule->width);
	r = serve_copy(message, size, &reply, &why);
	EXPECT(run.n_done == 0);
	EXPECT(r == (rule->why ? -EBADMSG : 0));
	if (r == 0) {
		EXPECT(reply.result == rule->result);
		EXPECT(reply.size == 0);
	}
	if (rule->why && strcmp(why, rule->why) != 0) {
		printf("said \"%s\", not \"%s\"\n", why, rule->why);
		EXPECT(false);
	}
}

/* A call that breaks a rule sends nothing; a call at the limit of a rule arrives. */
static void test_attempt(const struct rule_case *one, unsigned i)
{
	const struct attempt *attempt = &one->attempts[i];

	rules_strict = false;
	EXPECT(one->send(i + 1) == (attempt->is_refused ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS));
	EXPECT(run.n_placed == !attempt->is_refused);
	EXPECT(run.n_done == !attempt->is_refused);
}

static void test_lengths(const struct rule_case *one)
{
	uint64_t message[MESSAGE_MAX / 8 + 1] = {0};
	struct message_head *head = (void *)message;
	uint32_t size = one->make(message);
	struct reply reply;
	const char *why = "nothing";

	rules_strict = false;
	for (uint32_t n = sizeof(*head); n < size; n += MESSAGE_ALIGN) {
		head->size = n;
		EXPECT(serve_copy(message, n, &reply, &why) == -EBADMSG);
		EXPECT(run.n_done == 0);
	}
	message[size / 8] = 0;
	head->size = size + MESSAGE_ALIGN;
	EXPECT(serve_copy(message, head->size, &reply, &why) == -EBADMSG);
	EXPECT(strstr(why, "size: exact"));
}

static void test_words(const struct rule_case *one)
{
	static const uint32_t evil[] = {0, 1, 2, 7, 8, 0x7f, 0xff, 0xffff, 0x10000, 0x7ffffff8,
		0x7fffffff, 0x80000000, 0xfffffff0, 0xfffffff9, 0xffffffff};
	uint32_t message[MESSAGE_MAX / 4] __attribute__((aligned(8)));
	uint32_t size = one->make(message);
	struct reply reply;

	rules_strict = false;
	/* Word 0 is the size, which ring_take() has checked. */
	for (uint32_t at = 1; at < size / 4; at++) {
		for (unsigned i = 0; i < ARRAY_SIZE(evil); i++) {
			uint32_t kept = message[at];
			const char *why = NULL;
			int r;

			message[at] = evil[i];
			r = serve_copy(message, size, &reply, &why);
			EXPECT(r == 0 || (r == -EBADMSG && why && run.n_done == 0));
			message[at] = kept;
		}
	}
}

static void test_unknown(void)
{
	struct message_head head = {.size = sizeof(head), .op = 0xffff};
	struct reply reply;
	const char *why = "nothing";

	EXPECT(serve_copy(&head, sizeof(head), &reply, &why) == -EBADMSG);
	EXPECT(!strcmp(why, "unknown message"));
	EXPECT(!strcmp(op_name(0xffff), "unknown"));
}

/* ---- the runner */

static void begin(void)
{
	run.n_wrong = 0;
	run.n_done = 0;
	run.n_placed = 0;
}

static void end(const char *name, const char *what)
{
	if (run.n_wrong == 0) {
		run.n_passed++;
		return;
	}
	run.n_failed++;
	printf("FAIL %s: %s\n", name, what);
}

static void run_case(const struct rule_case *one)
{
	static const struct {
		const char *what;
		void (*test)(const struct rule_case *one);
	} tests[] = {
		{"round trip", test_round_trip},
		{"valid message", test_valid},
		{"lengths", test_lengths},
		{"evil words", test_words},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
		begin();
		tests[i].test(one);
		end(one->name, tests[i].what);
	}
	for (unsigned i = 0; i < one->n_rules; i++) {
		begin();
		test_rule(one, &one->rules[i]);
		end(one->name, one->rules[i].why ? one->rules[i].why : "object or memory unknown");
	}
	for (unsigned i = 0; i < one->n_attempts; i++) {
		begin();
		test_attempt(one, i);
		end(one->name, one->attempts[i].what);
	}
}

int main(void)
{
	begin();
	test_unknown();
	end("message", "unknown");
	for (unsigned i = 0; i < n_rule_cases; i++)
		run_case(&rule_cases[i]);
	printf("%u passed, %u failed\n", run.n_passed, run.n_failed);
	return run.n_failed > 0;
}
