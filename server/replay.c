/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replays of records. A worker.
 *
 * Invariant: while WANTED_REPLAY is set, the session has none of the objects in session::script,
 * and its worker executes no message.
 */

#include "replay.h"

#include <fcntl.h>
#include <string.h>

#include "messages.h"
#include "server/util/log.h"
#include "server/record/record_file.h"
#include "server/record/record_script.h"
#include "server/session/fault.h"
#include "server/session/recorded.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/share/eviction.h"
#include "server/graph/graph.h"

static bool is_test;

void replay_init(void)
{
	const char *test = getenv("MPS_TEST");

	is_test = test && strcmp(test, "replay") == 0;
	if (is_test)
		log_line("MPS_TEST=replay: objects of a client are made again whenever it rests");
}

bool replay_is_test(void)
{
	return is_test;
}

const char *replay_obstacle(struct session *session)
{
	const char *why = record_obstacle(&session->record);

	if (!why && session->tracer)
		why = "a trace of it runs";
	if (!why && session->pending_error != CUDA_SUCCESS)
		why = "it has an error that its client does not know yet";
	for (const struct session_part *const *part = session_parts; *part && !why; part++)
		if ((*part)->obstacle)
			why = (*part)->obstacle(session);
	return why;
}

/* ---- objects are made again */

void replay_expect(struct session *session, struct record_script *script)
{
	session->script = script;
	record_fini(&session->record);
	atomic_fetch_or(&session->memory_wanted, WANTED_REPLAY);
}

static bool replay_note(struct session *session, const struct record_note *note)
{
	for (const struct session_part *const *part = session_parts; *part; part++) {
		if (!(*part)->recall || (*part)->recall(session, note))
			continue;
		log_line("Client " SESSION_NAME " cannot go on, because what it had cannot be made "
			 "again: %s %u",
			SESSION_NAME_ARGS(session),
			record_kind_name((uint8_t)MIN(note->kind, RECORD_KINDS)), note->id);
		return false;
	}
	return true;
}

static bool replay_message(struct session *session, const struct record_step *step)
{
	const uint32_t n_refused = session->record.n_refused;
	struct reply *reply = &session->reply;
	const char *why = "";

	session->step = step;
	if (dispatch_message(session, step->head, reply, &why) < 0)
		reply->result = CUDA_ERROR_INVALID_VALUE;
	session->step = NULL;
	if (reply->result != CUDA_SUCCESS)
		why = result_name((CUresult)reply->result);
	else if (session->record.n_refused != n_refused)
		why = "it was refused";
	else if (!record_step_is_same(step, reply->body))
		why = "another answer";
	else
		return true;
	log_line("Client " SESSION_NAME " cannot go on, because what it had cannot be made again: "
		 "%s: %s",
		SESSION_NAME_ARGS(session), op_name(step->head->op), why);
	return false;
}

bool replay_run(struct session *session)
{
	struct record_script *script = TAKE_PTR(session->script);
	struct record_step step;
	bool is_same = true;

	atomic_fetch_and(&session->memory_wanted, ~WANTED_REPLAY);
	while (is_same && fault_get() == CUDA_SUCCESS && record_script_next(script, &step))
		is_same = step.note ? replay_note(session, step.note)
				    : replay_message(session, &step);
	record_script_free(script);
	return is_same;
}

/* ---- the test */

/* As another server gets them. */
static int copy_fds(const struct record_saved *saved, int **ret_fds)
{
	int *fds = reallocarray(NULL, saved->n_images + 1, sizeof(*fds));

	if (!fds)
		return -ENOMEM;
	for (uint32_t i = 0; i < saved->n_images; i++)
		fds[i] = fcntl(saved->image_fds[i], F_DUPFD_CLOEXEC, 0);
	*ret_fds = fds;
	return 0;
}

int replay_save(struct session *session, struct record_saved *ret_saved)
{
	_cleanup_(record_notes_fini) struct record_notes notes = {0};

	each_part(session_parts, note, session, &notes);
	return record_save(&session->record, &notes, ret_saved);
}

static int save_and_load(struct session *session, struct record_script **ret_script)
{
	_cleanup_(record_saved_fini) struct record_saved saved;
	int *fds;
	int r = replay_save(session, &saved);

	if (r == 0)
		r = copy_fds(&saved, &fds);
	return r == 0 ? record_load(saved.fd, fds, saved.n_images, ret_script) : r;
}

static void end_objects(struct session *session)
{
	session->keeps_memory = true;
	for (const struct session_part *const *part = session_parts; *part; part++)
		if ((*part)->is_recorded)
			(*part)->end(session, false);
	session->keeps_memory = false;
	/* What is destroyed later would keep its values, which others must get again. */
	graphs_wait_for_ends(session);
}

void replay_leave(struct session *session)
{
	const char *why;
	struct record_script *script = NULL;
	int r;

	if (session->script || session->replayed_at == session->n_messages)
		return;
	session->replayed_at = session->n_messages;
	why = replay_obstacle(session);
	r = why ? 0 : save_and_load(session, &script);
	if (r < 0)
		why = strerrordesc_np(-r);
	if (why) {
		log_line("Client " SESSION_NAME " keeps its objects: %s",
			SESSION_NAME_ARGS(session), why);
		return;
	}
	log_line("Client " SESSION_NAME ": %u objects are made again", SESSION_NAME_ARGS(session),
		record_count(&session->record, RECORD_KINDS));
	end_objects(session);
	replay_expect(session, script);
}
