/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which clients a fault costs something, and why: what a server may say, and what get_last_fault
 * then prints (daemon/watch/faults.c).
 */

#include "base.h"
#include "scene.h"

#define FAULT "A1 A2 A3 S1+ S1:fault=A1 S1:names=A1 "
#define GIVES(client) "S1:gives=" client ":no_luck "
#define SEVERAL(tens)                                                                              \
	GIVES(tens "0") GIVES(tens "1") GIVES(tens "2") GIVES(tens "3") GIVES(tens "4")
#define DONE "S1 of A faulty: A1..A3; [done]"
#define JSON "[get_last_fault --json]"

static const struct scene_row rows[] = {
	{"the reason is told", FAULT GIVES("A2") "[get_last_fault]", DONE,
		"\"A2\" of user 1000, group none: no luck"},
	{"... also in JSON", FAULT GIVES("A2") JSON, DONE, "\"reason\":\"no luck\""},
	{"... to its user",
		"multi A1 B1 S1+ S1:fault=A1 S1:names=A1 S1:gives=A1:no_luck "
		"S1:gives=B1:no_luck B" JSON,
		"S1 of N faulty: A1 B1; [done]", "\"reason\":\"no luck\""},
	{"... and to no other",
		"multi A1 B1 S1+ S1:fault=A1 S1:names=A1 S1:gives=B1:no_luck A" JSON,
		"S1 of N faulty: A1 B1; [done]", "\"reason\":null"},
	{"the culprit is listed once", FAULT GIVES("A1") JSON, DONE, "\"n_lost\":0"},
	{"a client counts once", FAULT GIVES("A2") GIVES("A2") GIVES("A3") GIVES("A2") JSON, DONE,
		"\"n_lost\":2"},
	{"... with its first reason", FAULT GIVES("A2") "S1:gives=A2:other " JSON, DONE,
		"\"reason\":\"no luck\""},
	{"sixteen are listed",
		"A10..A29 S1+ S1:fault=A10 S1:names=A10 " SEVERAL("A1") SEVERAL(
			"A2") "S1:gives=A15:no S1:gives=A16:no S1:gives=A17:no S1:gives=A18:no "
			      "S1:gives=A19:no S1:gives=A25:no S1:gives=A26:no S1:gives=A27:no "
			      "[get_last_fault]",
		"S1 of A faulty: A10..A29; [done]", "Lost      2 more"},
	{"a server without a fault tells nothing", "A1 A2 A3 S1+ " GIVES("A2") JSON,
		"S1 of A: A1..A3; [done]", "[]"},
	{"nor about a client of another one",
		"A1 B1 S1+ S2+ S1:fault=A1 S1:names=A1 S1:gives=A1:no S1:gives=B1:no " JSON,
		"S1 of A faulty: A1; S2 of B: B1; [done]", "\"n_lost\":0"},
	{"who goes on without its work is not lost", FAULT "S1:gives=A2:+ " JSON, DONE,
		"\"n_lost\":0"},
	{"... unless it turns out that it cannot", FAULT "S1:gives=A2:+ " GIVES("A2") JSON, DONE,
		"\"n_lost\":1"},
	{"escape sequences are refused", FAULT "S1:gives=A2:a^c " JSON,
		"S1 of A starting: A1..A3; [done]", "violated the protocol"},
	{"... and so are empty reasons", FAULT "S1:gives=A2: " JSON,
		"S1 of A starting: A1..A3; [done]", "violated the protocol"},
};

int main(void)
{
	return scene_run_rows("fault_clients", rows, ARRAY_SIZE(rows));
}
