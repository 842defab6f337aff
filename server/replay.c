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
#include "server/util/pack.h"
#include "server/record/record_file.h"
#include "server/record/record_script.h"
#include "server/session/fault.h"
#include "server/session/recorded.h"
#include "server/session/session.h"
#include "server/session/session_move.h"
#include "server/session/session_part.h"
#include "server/device/device_quota.h"
#include "server/share/eviction.h"
#include "server/array/array.h"
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

/* ---- objects are made again */

/* The session, which has none of these objects, makes them before its next message. Takes it. */
static void expect_objects(struct session *session, struct record_script *script)
{
	session->script = script;
	device_quotas_check(session, false);
	record_fini(&session->record);
	atomic_fetch_or(&session->memory_wanted, WANTED_REPLAY);
}

static bool replay_note(struct session *session, const struct record_note *note)
{
	for (const struct session_part *const *part = session_parts; *part; part++) {
		if (!(*part)->recall || (*part)->recall(session, note))
			continue;
		if (fault_spares(session))
			return true;
		if (atomic_load(&session->is_ending))
			return false;
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
	reply->result = (uint32_t)fault_note_failure(session, (CUresult)reply->result);
	/* Then the client is not at fault. */
	if (reply->result != CUDA_SUCCESS && fault_spares(session))
		return true;
	/* A call that waits for others gives up when the client has left. */
	if (reply->result != CUDA_SUCCESS && atomic_load(&session->is_ending))
		return false;
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
	bool is_same = true, has_begun = false;

	atomic_fetch_and(&session->memory_wanted, ~WANTED_REPLAY);
	while (is_same && fault_get() == CUDA_SUCCESS && record_script_next(script, &step)) {
		has_begun = true;
		is_same = step.note ? replay_note(session, step.note)
				    : replay_message(session, &step);
	}
	if (fault_spares(session)) {
		session->has_lost |= has_begun;
		session->script = script;
		atomic_fetch_or(&session->memory_wanted, WANTED_REPLAY);
		return true;
	}
	record_script_free(script);
	device_quotas_check(session, true);
	return is_same;
}

/* ---- the record on its way */

/* Objects that were not made yet are in the script only. */
static int save(struct session *session, struct record_saved *ret_saved)
{
	_cleanup_(record_notes_fini) struct record_notes notes = {0};

	if (session->script)
		return record_script_save(session->script, ret_saved);
	each_part(session_parts, note, session, &notes);
	return record_save(&session->record, &notes, ret_saved);
}

int replay_pack(struct session *session, struct pack *pack)
{
	_cleanup_(record_saved_fini) struct record_saved saved;
	int r = save(session, &saved);

	if (r < 0)
		return r;
	pack_put_number(pack, saved.n_images);
	pack_put_fd(pack, TAKE_FD(saved.fd));
	for (uint32_t i = 0; i < saved.n_images; i++)
		pack_put_fd(pack, fcntl(saved.image_fds[i], F_DUPFD_CLOEXEC, 0));
	return pack->is_bad ? -ENOMEM : 0;
}

static int script_unpack(struct pack *pack, struct record_script **ret_script)
{
	const uint32_t n_images = (uint32_t)pack_get_number(pack, PACK_FDS_MAX);
	_cleanup_close_ int fd = pack_get_fd(pack);
	int *fds;

	if (pack->is_bad || n_images > pack->n_fds - pack->fd_at)
		return -EBADMSG;
	fds = reallocarray(NULL, n_images + 1, sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_images; i++)
		fds[i] = pack_get_fd(pack);
	return record_load(fd, fds, n_images, ret_script);
}

int replay_unpack(struct session *session, struct pack *pack)
{
	struct record_script *script;
	int r = script_unpack(pack, &script);

	if (r == 0)
		expect_objects(session, script);
	return r;
}

/* ---- the test */

/* The session has its objects still. */
static int pack_and_unpack(struct session *session, struct record_script **ret_script)
{
	_cleanup_(pack_fini) struct pack pack = {0};
	int r = replay_pack(session, &pack);

	return r == 0 ? script_unpack(&pack, ret_script) : r;
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
	why = session_obstacle(session);
	r = why ? 0 : array_contents_keep(session);
	if (!why && r == 0)
		r = pack_and_unpack(session, &script);
	if (r < 0)
		why = strerrordesc_np(-r);
	if (why) {
		array_contents_fini(session->array_contents);
		log_line("Client " SESSION_NAME " keeps its objects: %s",
			SESSION_NAME_ARGS(session), why);
		return;
	}
	log_line("Client " SESSION_NAME ": %u objects are made again", SESSION_NAME_ARGS(session),
		record_count(&session->record, RECORD_KINDS));
	end_objects(session);
	expect_objects(session, script);
}
