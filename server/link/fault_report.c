/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reports of faults. Loop thread.
 *
 * Invariant: a client is named as the cause of a fault only if it had work on a GPU. An
 * address in the memory of a client without work proves nothing, because any kernel can
 * access it.
 */

#include "fault_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "daemon_link.h"
#include "survivor.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/driver/driver.h"
#include "server/driver/owner.h"

/* After the fault: by then the kernel's log has been read. */
#define ADDRESS_MS 600

/* Other clients than suspects: so many lines say whether they had work. */
#define OTHERS_LOGGED 16

static bool is_known(const struct fault_report *report)
{
	return report->frame.how != FAULT_SUSPECTS;
}

static bool had_work(const struct client_conn *conn)
{
	return !conn->is_inactive && atomic_load(&conn->session->had_work);
}

static bool any_had_work(const struct client_conn *conns)
{
	for (const struct client_conn *conn = conns; conn; conn = conn->next)
		if (had_work(conn))
			return true;
	return false;
}

/* Any worker may be the first to see the fault. */
static bool has_seen_it(const struct client_conn *conn)
{
	return !conn->is_inactive && conn->session->id == fault_session();
}

/* As the cause, or a suspect. */
static bool is_listed(const struct fault_report *report, const struct client_conn *conn)
{
	for (unsigned i = 0; i < report->n_suspects; i++)
		if (report->suspects[i].id == conn->id)
			return true;
	return false;
}

/* The GPU, if all of them use only this one. */
static uint32_t only_device(uint64_t devices)
{
	if (devices == 0 || (devices & (devices - 1)))
		return FAULT_DEVICE_UNKNOWN;
	return (uint32_t)__builtin_ctzll(devices);
}

static void fault_report_add(struct fault_report *report, const struct client_conn *conn)
{
	unsigned n = report->n_suspects;

	report->frame.n_suspects++;
	if (n == FAULT_SUSPECTS_MAX)
		return;
	report->frame.clients[n] = conn->id;
	report->suspects[n].id = conn->id;
	report->suspects[n].session = conn->session->id;
	report->suspects[n].pid = conn->pid;
	report->n_suspects++;
}

static void set_result(struct fault_report *report, CUresult result)
{
	report->frame.result = (uint32_t)result;
	snprintf(report->frame.result_name, sizeof(report->frame.result_name), "%s",
		result_name(result));
}

static void log_culprit(const struct fault_report *report, unsigned i, const char *why)
{
	log_line("Client {PID: %d, Context: %u} encountered a fatal GPU error%s",
		(int)report->suspects[i].pid, report->suspects[i].session, why);
}

static void log_suspects(const struct fault_report *report)
{
	log_line("One of %u clients with work on the GPU encountered a fatal GPU error.",
		report->frame.n_suspects);
	for (unsigned i = 0; i < report->n_suspects; i++)
		log_line("Client {PID: %d, Context: %u} had work on the GPU",
			(int)report->suspects[i].pid, report->suspects[i].session);
}

/* Clients whose memory the address of the fault is in are not known yet. */
static void log_others(const struct fault_report *report, const struct client_conn *conns)
{
	const CUresult fault = (CUresult)report->frame.result;
	unsigned n = 0;

	for (const struct client_conn *conn = conns; conn; conn = conn->next) {
		const bool had_work = atomic_load(&conn->session->had_work);

		if (conn->is_inactive || is_listed(report, conn))
			continue;
		if (n++ < OTHERS_LOGGED)
			log_line("Client {PID: %d, Context: %u} %s", (int)conn->pid,
				conn->session->id,
				survivor_text(
					survivor_of(fault, had_work, conn->session->continues)));
	}
	if (n > OTHERS_LOGGED)
		log_line("... and %u more clients", n - OTHERS_LOGGED);
}

void fault_report_begin(struct fault_report *report, const struct client_conn *conns)
{
	bool (*const may_have_caused_it)(const struct client_conn *conn) =
		any_had_work(conns) ? had_work : has_seen_it;
	uint64_t devices = 0;

	*report = (struct fault_report){
		.is_address_due = true, .frame.head = frame_head(FRAME_FAULT, 0)};
	set_result(report, fault_get());
	for (const struct client_conn *conn = conns; conn; conn = conn->next)
		if (may_have_caused_it(conn)) {
			fault_report_add(report, conn);
			devices |= atomic_load(&conn->session->granted);
		}
	report->frame.ordinal = only_device(devices);
	report->frame.how = report->frame.n_suspects == 1 ? FAULT_ALONE : FAULT_SUSPECTS;
	if (is_known(report))
		log_culprit(report, 0, ".");
	else
		log_suspects(report);
	log_others(report, conns);
	log_line("Server is handling a fatal GPU error.");
	log_line("The error is %s (%d)", report->frame.result_name, (int)report->frame.result);
}

uint64_t fault_report_client(const struct fault_report *report)
{
	return is_known(report) ? report->suspects[0].id : 0;
}

pid_t fault_report_pid(const struct fault_report *report)
{
	return is_known(report) ? report->suspects[0].pid : 0;
}

void fault_report_send(const struct fault_report *report)
{
	daemon_link_send(&report->frame);
}

/* Records what a client launched last. */
static void take_kernel(struct fault_report *report, unsigned i, const struct client_conn *conn)
{
	last_launch_copy(&conn->session->last_launch, report->suspects[i].kernel);
}

/* One suspect is known to be the cause. */
static void fault_report_settle(struct fault_report *report, unsigned i, enum fault_how how)
{
	report->suspects[0] = report->suspects[i];
	report->n_suspects = report->frame.n_suspects = 1;
	memset(report->frame.clients, 0, sizeof(report->frame.clients));
	report->frame.clients[0] = report->suspects[0].id;
	memcpy(report->frame.kernel, report->suspects[0].kernel, sizeof(report->frame.kernel));
	report->frame.how = how;
}

static void fault_report_look_up(struct fault_report *report, uint64_t address)
{
	uint32_t session = owner_last(address).session;
	char why[80];

	snprintf(why, sizeof(why), ": its memory is around the address 0x%" PRIx64 " of the fault",
		address);
	for (unsigned i = 0; i < report->n_suspects && session > 0; i++)
		if (report->suspects[i].session == session) {
			fault_report_settle(report, i, FAULT_ADDRESS);
			log_culprit(report, 0, why);
			return;
		}
	log_line("The fault address 0x%" PRIx64
		 " is near no memory of a client with work on the GPU",
		address);
}

void fault_report_take_address(struct fault_report *report, const struct frame_fault_address *frame)
{
	if (!report->is_address_due)
		return;
	report->is_address_due = false;
	if (frame->address == 0)
		return;
	report->frame.address = frame->address;
	if (frame->ordinal < DEVICES_MAX)
		report->frame.ordinal = frame->ordinal;
	if (!is_known(report))
		fault_report_look_up(report, frame->address);
	fault_report_send(report);
}

void fault_report_note_end(struct fault_report *report, const struct client_conn *conn)
{
	for (unsigned i = 0; i < report->n_suspects; i++)
		if (report->suspects[i].id == conn->id)
			take_kernel(report, i, conn);
	if (report->n_suspects == 0 || !is_known(report) || report->frame.kernel[0] ||
		!report->suspects[0].kernel[0])
		return;
	fault_report_settle(report, 0, report->frame.how);
	fault_report_send(report);
}

bool fault_report_suspects(const struct fault_report *report, const struct client_conn *conn)
{
	return is_listed(report, conn) ||
	       (report->frame.n_suspects > report->n_suspects && had_work(conn));
}

bool fault_report_is_hit(const struct fault_report *report, const struct client_conn *conn)
{
	const uint64_t address = report->frame.address;

	return address != 0 && owner_of(address).session == conn->session->id;
}

bool fault_report_awaits_address(const struct fault_report *report, uint64_t ms)
{
	return report->is_address_due && ms < ADDRESS_MS;
}

bool fault_report_is_open(const struct fault_report *report, uint64_t ms)
{
	return fault_report_awaits_address(report, ms) && !is_known(report) &&
	       report->n_suspects > 0;
}

void fault_report_overdue(struct fault_report *report, const struct client_conn *conn)
{
	*report = (struct fault_report){
		.frame = {.head = frame_head(FRAME_FAULT, 0), .how = FAULT_OVERDUE}};
	set_result(report, CUDA_ERROR_LAUNCH_TIMEOUT);
	fault_report_add(report, conn);
	report->frame.ordinal = only_device(atomic_load(&conn->session->granted));
	take_kernel(report, 0, conn);
	fault_report_settle(report, 0, FAULT_OVERDUE);
	fault_report_send(report);
}
