# SPDX-License-Identifier: Apache-2.0
#
# Building and running the tests, the examples and the set-up; part of the Makefile.

# ---- unit tests: tests/unit/ROOM/test_X.c is $(BUILD)/tests/test_ROOM_X

UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
unit_name = test_$(subst /test_,_,$(1:tests/unit/%.c=%))
UNIT := $(foreach s,$(UNIT_SRC),$(BUILD)/tests/$(call unit_name,$(s)))

RECEIVER := server/session/receiver.c server/session/receiver_process.c
# A test is linked with its own file and the archive of its program; a function that the test defines replaces
# the archive's, as long as the test needs nothing else of the same object.
$(eval $(call archive,client,$(call objects,client,$(CLIENT_SRC))))
# Sessions without a process that receives descriptors, over a driver that counts.
$(eval $(call archive,server,$(call objects,test,$(filter-out server/main.c $(RECEIVER),$(SERVER_SRC)) $(GEN)/send.c \
	tests/fuzz/session_harness.c $(filter-out %_system.c,$(wildcard tests/fuzz/fake_*.c)))))
$(eval $(call archive,proto,$(call objects,test,$(addprefix $(GEN)/,procs.c send.c wire.c))))
$(eval $(call archive,softgpu,$(call objects,test,$(wildcard tests/softgpu/ptx/*.c tests/softgpu/ptx/*/*.c))))
archives_of = $(call archives,$(1) proto-$(or $(filter daemon client,$(1)),test))

# What the files of a program need besides.
libs_daemon := $(DAEMON_LIBS) $(NCURSES)
libs_server := $(LIBUV) $(UNPACKERS)
libs_softgpu := -llz4 -lzstd

# Files that a test is linked with besides the archive of its folder, and its options.
unit_test_server_receiver := $(RECEIVER)
unit_test_server_share_controller := tests/unit/server/share_model.c
unit_test_proto_wire := $(addprefix $(GEN)/,test_rules.c dispatch.c)
# The daemon without its calls of the system, for rules as rows of a table.
SCENES := $(foreach s,$(shell grep -l '"scene.h"' $(wildcard tests/unit/daemon/test_*.c)),$(call unit_name,$(s)))
$(foreach t,$(SCENES),$(eval unit_$(t) := $(wildcard tests/unit/daemon/scene*.c) tests/fuzz/fake_system.c) \
	$(eval unit_libs_$(t) := -Wl,--wrap=uv_queue_work))
unit_libs_test_server_account := -Wl,--wrap=calloc,--wrap=reallocarray
unit_libs_test_server_frame_queue := -Wl,--wrap=realloc
unit_libs_test_server_deferred := -Wl,--wrap=malloc_trim
unit_libs_test_server_gate := -Wl,--wrap=nanosleep,--wrap=clock_gettime
# Sessions whose memory, work and copies the test simulates.
WRAPPED_BY_TURNS := nanosleep clock_gettime streams_poll ring_interrupt session_device_enter session_devices_trim mover_begin mover_end \
	arena_evict arena_return arena_returned virtual_evict virtual_return virtual_returned
unit_libs_test_server_turns := $(WRAPPED_BY_TURNS:%=-Wl,--wrap=%)
unit_libs_test_server_foreground := -Wl,--wrap=elastic_note,--wrap=classes_background
unit_libs_test_server_alloc := -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray
unit_libs_test_server_fatbin := $(call archives,softgpu) $(libs_softgpu)
unit_libs_test_client_exchange := -Wl,--wrap=syscall
unit_libs_test_client_mapping := -Wl,--wrap=madvise

# $(1) name, $(2) source, $(3) archive
define unit_test
$(BUILD)/tests/$(1): $(call objects,test,$(2) $(unit_$(1))) $(call archives_of,$(3))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(unit_libs_$(1)) $(libs_$(3)) -lcmocka -ldl -lm
endef
$(foreach s,$(UNIT_SRC),$(eval $(call unit_test,$(call unit_name,$(s)),$(s),$(word 3,$(subst /, ,$(s))))))
$(BUILD)/tests/test_server_fatbin: $(call archives,softgpu)

# nvcc's code of one program: with and without addends, linked, for debuggers; and linked without virtual tables.
CUBINS := $(addprefix $(BUILD)/tests/cubins/,sm_75.cubin sm_90.cubin linked.cubin debug.cubin linked_symbols.cubin)
cubin_linked := -rdc=true -dlink
cubin_linked_symbols := $(cubin_linked)
cubin_debug := -G
$(CUBINS): $(BUILD)/tests/cubins/%.cubin: $(addprefix tests/programs/runtime/,variables.cu symbols.cu)
	@mkdir -p $(@D)
	$(NVCC) -cubin -arch=$(if $(filter sm_%,$*),$*,sm_90) $(cubin_$*) -o $@ $(filter %/$(or $(filter symbols,$(subst _, ,$*)),variables).cu,$^)
$(BUILD)/tests/test_server_globals: | $(CUBINS)

# ---- fuzzers: test_fuzz_X replays tests/fuzz/corpus/X, and seeds that are made from the spec;
# `make fuzz' searches for more with libFuzzer, FUZZ_SECONDS each, and keeps the results under
# $(BUILD)/fuzz

FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_SECONDS ?= 60
# The server is the subject of those without a line here: its archive, and what replaces the driver.
fuzz_archive_frame := proto
fuzz_archive_tokenize := daemon
fuzz_archive_config := daemon
fuzz_archive_xid := daemon
fuzz_archive_daemon := daemon
fuzz_archive_state := daemon
# The daemon without its calls of the system.
fuzz_with_daemon := tests/fuzz/fake_system.c
fuzz_with_move := tests/fuzz/move_model.c
fuzz_libs_daemon := -Wl,--wrap=uv_queue_work
fuzz_archive = $(or $(fuzz_archive_$(1)),server)
fuzz_objects = $(call objects,test,tests/fuzz/fuzz_$(1).c $(fuzz_with_$(1))) \
	$(call archives_of,$(call fuzz_archive,$(1)))

# $(1) name; $(BUILD)/fuzz/fuzz_X is of a build for libFuzzer
define fuzzer
$(BUILD)/tests/test_fuzz_$(1): $(call objects,test,tests/fuzz/replay.c) $(call fuzz_objects,$(1))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(fuzz_libs_$(1)) $(libs_$(call fuzz_archive,$(1))) -ldl
$(BUILD)/fuzz/fuzz_$(1): $(call fuzz_objects,$(1))
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -fsanitize=fuzzer -o $$@ $$^ $(fuzz_libs_$(1)) $(libs_$(call fuzz_archive,$(1))) -ldl
endef
$(foreach f,$(FUZZ),$(eval $(call fuzzer,$(f))))
$(FUZZ:%=$(BUILD)/tests/test_fuzz_%): | $(BUILD)/fuzz/seeds/.stamp

$(BUILD)/fuzz/seeds/.stamp: tests/fuzz/seeds.py tests/fuzz/fuzz_daemon.c proto/cuda.spec $(WIRE) \
		$(wildcard daemon/command/*.c) tests/system/wire.py tests/system/operator_lines.py \
		$(wildcard tests/fuzz/hostile/*.py) | $(GEN)/.stamp
	CC=$(CC) $(PYTHON) tests/fuzz/seeds.py $(@D)
	@touch $@

UNIT += $(FUZZ:%=$(BUILD)/tests/test_fuzz_%)

# libFuzzer counts edges in all objects.
LIBFUZZER := $(BUILD)-libfuzzer

.PHONY: fuzz fuzzers
fuzzers: $(FUZZ:%=$(BUILD)/fuzz/fuzz_%)

fuzz: $(BUILD)/fuzz/seeds/.stamp
	@$(MAKE) --no-print-directory CC=clang SAN=address,undefined,fuzzer-no-link BUILD=$(LIBFUZZER) fuzzers
	for f in $(FUZZ); do mkdir -p $(BUILD)/fuzz/$$f $(BUILD)/fuzz/seeds/$$f; \
		$(LIBFUZZER)/fuzz/fuzz_$$f -close_fd_mask=2 -max_len=8192 -timeout=20 \
		-max_total_time=$(FUZZ_SECONDS) $(BUILD)/fuzz/$$f tests/fuzz/corpus/$$f \
		$(BUILD)/fuzz/seeds/$$f || exit 1; done
	@$(MAKE) --no-print-directory SAN=address,undefined fuzz-clients

# Whole processes with a real service (tests/fuzz/clients).
.PHONY: fuzz-clients
fuzz-clients: all softgpu examples
	MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/fuzz/clients \
		--seconds $(FUZZ_SECONDS) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

# tests/run takes every program there, so a program with an old name is removed.
.PHONY: unit
unit: $(UNIT)
	@rm -f $(filter-out $(UNIT),$(wildcard $(BUILD)/tests/test_*))

# ---- the library that makes libc's functions fail, preloaded by tests/fault

BREAK := $(BUILD)/fault/libbreak.so

$(BREAK): tests/fault/break.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) $(WERROR) -O2 -g -fPIC -fno-builtin -shared \
		-fvisibility=hidden -o $@ $< -ldl

# ---- example programs: unmodified CUDA, nvcc's default flags, static runtime.
# tests/programs/FOLDER/X is $(BUILD)/bin/examples/X. Lines of its opening comment state exceptions:
# `Runs: on a GPU' (uses NVIDIA's libraries, which need not be installed; built by
# `make gpu-examples'), `Runs: for a test of its own', `Builds with: FLAGS', `Needs: Open MPI'
# (built if it is installed; MPI has what nvcc needs for it)

PROGRAM_SRC := $(wildcard $(addprefix tests/programs/,runtime/*.cu driver_api/*.c gpu_only/*.cu))
MPICC := $(shell command -v mpicc)
MPI_DIRS := $(if $(MPICC),$(shell $(MPICC) --showme:incdirs 2>/dev/null))
# The compiler's wrapper may exist without the headers.
MPI := $(if $(wildcard $(MPI_DIRS:%=%/mpi.h)),$(MPI_DIRS:%=-I%) \
	$(patsubst %,-L%,$(shell $(MPICC) --showme:libdirs)) -lmpi)
MPI_ONLY := $(shell grep -ls '^ \* Needs: Open MPI' $(PROGRAM_SRC))
GPU_ONLY := $(shell grep -ls '^ \* Runs: on a GPU' $(PROGRAM_SRC))
example = $(addprefix $(BUILD)/bin/examples/,$(basename $(notdir $(1))))
EXAMPLES := $(call example,$(filter-out $(GPU_ONLY) $(if $(MPI),,$(MPI_ONLY)),$(PROGRAM_SRC)))
built_with = $(shell sed -n 's/^ \* Builds with: //p' $(1))

define nvcc_program
$(BUILD)/bin/examples/%: tests/programs/$(1)/%.cu $(wildcard tests/programs/helpers/*)
	@mkdir -p $$(@D)
	$$(NVCC) -o $$@ $$< $$(call built_with,$$<) $$(if $$(filter $$<,$$(MPI_ONLY)),$$(MPI))
endef
$(eval $(call nvcc_program,runtime))
$(eval $(call nvcc_program,gpu_only))
$(addprefix $(BUILD)/bin/examples/variables_,cubin linked): tests/programs/runtime/variables.cu

# Of the driver API: the client library replaces the toolkit's stub, which its wheels lack.
$(BUILD)/bin/examples/%: tests/programs/driver_api/%.c $(BUILD)/lib/libcuda.so.1 $(wildcard tests/programs/helpers/*)
	@mkdir -p $(@D)
	$(CC) -O2 -isystem $(CUDA_HOME)/include -o $@ $< \
		$(BUILD)/lib/libcuda.so.1 -Wl,--allow-shlib-undefined $(call built_with,$<)

# Programs contain nothing of this project: other builds use those of the plain build.
.PHONY: examples
ifeq ($(SAN)$(COVERAGE)$(DEBUG),)
examples: $(EXAMPLES)
else
examples:
	@$(MAKE) --no-print-directory SAN= COVERAGE= DEBUG= BUILD=build examples
	@mkdir -p $(BUILD)/bin
	ln -sfn ../../build/bin/examples $(BUILD)/bin/examples
endif

.PHONY: gpu-examples
gpu-examples: examples $(call example,$(GPU_ONLY))

# ---- the matrix of contexts: each driver call without its context (tests/system/test_contexts.py)

CONTEXTS := $(BUILD)/bin/contexts

$(GEN)/context_calls.c: tests/contexts/generate.py $(GEN)/.stamp
	$(PYTHON) $< --spec proto/cuda.spec --headers $(CUDA_HOME)/include --out $@
	@touch $@

$(CONTEXTS): $(call objects,test,$(wildcard tests/contexts/*.c) $(GEN)/context_calls.c $(GEN)/cuda_api.c)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -ldl

# ---- the speed of the software GPU; BENCH_LIBRARIES="OLD NEW" compares two builds

BENCH_LIBRARIES ?= $(SOFTGPU)
BENCH := $(BUILD)/bin/softgpu-bench

$(BENCH): tests/softgpu/bench/bench.cu
	@mkdir -p $(@D)
	$(NVCC) -o $@ $<
	$(NVCC) -ptx -o $@.ptx $<

.PHONY: bench-softgpu
bench-softgpu: $(SOFTGPU) $(BENCH)
	tests/softgpu/bench/run $(BENCH) $(BENCH).ptx $(BENCH_LIBRARIES)

# ---- the speed of the service beside native programs and the vendor's MPS; BENCH_ARGS are those of
# tests/bench/run

.PHONY: bench
bench: all softgpu examples
	MPS_BUILD=$(abspath $(BUILD)) tests/bench/run $(BENCH_ARGS)

# ---- everything at once, each after its set-up: a second make sees what the set-up installed

# All processors, unless the caller has set a number.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: help setup demo check everything
help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

setup:
	@tests/setup

everything: all softgpu examples unit $(BREAK) $(CONTEXTS)

# The programs that the demo runs.
DEMO := $(addprefix $(BUILD)/bin/examples/,timeline process1 process2 fault)

demo: setup
	@echo "Building the service, the software GPU and four programs in $(BUILD):"
	@echo "about a minute on two processors, 70 MB."
	@MAKE=$(MAKE) tests/progress $(JOBS) all softgpu $(DEMO)
	@MPS_BUILD=$(abspath $(BUILD)) tests/demo

# Tests at a time. Many of them wait: two leave a third of two processors idle.
TEST_JOBS ?= 3

check: setup
	@echo "Building everything in $(BUILD): about 3 minutes on two processors, 500 MB."
	@MAKE=$(MAKE) tests/progress $(JOBS) everything
	@MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/run --jobs $(TEST_JOBS) $(TESTS)

# Hostile programs for minutes: kills by the thousand, floods by strangers.
.PHONY: check-hostile
check-hostile: setup
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/run --folder tests/hostile $(TESTS)

# Test suites of other projects, natively and as clients: SUITES="numba warp" chooses, SHORT=1 takes a
# few modules of each.
SUITES ?=
SUITES_JOBS ?= 1

.PHONY: suites
suites:
	@tests/setup --suites
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu
	@MPS_BUILD=$(abspath $(BUILD)) CC=$(CC) tests/suites/run --jobs $(SUITES_JOBS) \
		$(if $(SHORT),--short) $(SUITES)

# What needs a large installation: packages in a fresh root of Debian, and clusters. SHORT=1: a
# minute, after a smaller installation.
.PHONY: check-cluster
check-cluster:
	@tests/setup --cluster$(if $(SHORT),-short)
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) CC=$(CC) tests/run --folder tests/cluster \
		$(or $(TESTS),$(if $(SHORT),test_prometheus test_slurm))

# Everything at random, for any length of time.
SOAK_SECONDS ?= 3600

.PHONY: soak
soak: setup
	@$(MAKE) --no-print-directory -s $(JOBS) all softgpu examples
	@MPS_BUILD=$(abspath $(BUILD)) MPS_SAN=$(SAN) CC=$(CC) tests/soak --seconds $(SOAK_SECONDS)

# ---- which lines of server and daemon the fuzzers reach; COVERAGE_ARGS are tests/coverage's

COVERAGE_SECONDS ?= 300

.PHONY: coverage corpus
corpus: $(FUZZ:%=$(BUILD)/tests/test_fuzz_%)

coverage: setup
	@$(MAKE) --no-print-directory -s $(JOBS) COVERAGE=1 all softgpu examples corpus
	@CC=$(CC) tests/coverage --seconds $(COVERAGE_SECONDS) $(COVERAGE_ARGS)

# ---- install: the library goes into a folder that ldconfig never scans, or ldconfig would link the
# machine's libcuda.so.1 to it

LIBDIR := $(DESTDIR)$(PREFIX)/lib/mps
SHARE := $(DESTDIR)$(PREFIX)/share
MANDIR := $(SHARE)/man
MANUAL := $(wildcard docs/man/*)

# Empty: without links by NVIDIA's names.
VENDOR_NAMES ?= yes
PIPE_DIRECTORY = $(shell sed -n 's/^.define PIPE_DIRECTORY_DEFAULT "\(.*\)"/\1/p' include/bounds.h)

.PHONY: install
install: all softgpu
	install -d $(DESTDIR)$(PREFIX)/bin $(LIBDIR) $(DESTDIR)$(PREFIX)/lib/systemd/system \
		$(LIBDIR)/softgpu $(DESTDIR)$(PREFIX)/lib/tmpfiles.d $(DESTDIR)$(PREFIX)/lib/sysusers.d \
		$(SHARE)/doc/mps/docs $(SHARE)/mps/fleet $(SHARE)/pkgconfig $(SHARE)/bash-completion/completions \
		$(SHARE)/zsh/site-functions $(patsubst .%,$(MANDIR)/man%,$(sort $(suffix $(MANUAL))))
	install $(PROGRAMS) $(BUILD)/bin/mps-run $(DESTDIR)$(PREFIX)/bin
	$(if $(VENDOR_NAMES),daemon/dist/install-names "$(DESTDIR)" "$(PREFIX)/bin")
	install -m 644 $(LIBRARY) $(LIBDIR)
	install $(CHECK) $(LIBDIR)
	ln -sf libmpsclient.so $(LIBDIR)/libcuda.so.1
	ln -sf libmpsclient.so $(LIBDIR)/libcuda.so
	install -m 644 $(SOFTGPU) $(LIBDIR)/softgpu
	for unit in service socket; do \
		sed 's|@BINDIR@|$(PREFIX)/bin|' daemon/dist/mps-control.$$unit \
			>$(DESTDIR)$(PREFIX)/lib/systemd/system/mps-control.$$unit || exit 1; done
	install -m 644 daemon/dist/mps-control.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/mps-control.conf
	install -m 644 daemon/dist/mps-control.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/mps-control.conf
	install -m 644 README.md LICENSE daemon/dist/mps.conf $(SHARE)/doc/mps
	install -m 644 $(wildcard docs/fleet/*) $(SHARE)/mps/fleet
	cp -R $(filter-out docs/fleet docs/man,$(wildcard docs/*)) $(SHARE)/doc/mps/docs
	chmod -R u=rwX,go=rX $(SHARE)/doc/mps/docs
	ln -sfn ../../../mps/fleet $(SHARE)/doc/mps/docs/fleet
	for page in $(MANUAL); do install -m 644 $$page $(MANDIR)/man$${page##*.} || exit 1; done
	sed 's|@VERSION@|$(VERSION)|; s|@PIPE_DIRECTORY@|$(PIPE_DIRECTORY)|' daemon/dist/mps.pc.in \
		>$(SHARE)/pkgconfig/mps.pc
	install -m 644 daemon/dist/completion/mps-control.bash $(SHARE)/bash-completion/completions/mps-control
	ln -sf mps-control $(SHARE)/bash-completion/completions/mps-top
	install -m 644 daemon/dist/completion/mps-run.bash $(SHARE)/bash-completion/completions/mps-run
	install -m 644 daemon/dist/completion/_mps-control daemon/dist/completion/_mps-run $(SHARE)/zsh/site-functions

# For every CUDA program of the machine: the loader's configuration names a folder that has only links.
# After `make install'.
.PHONY: install-everywhere uninstall-everywhere
install-everywhere:
	@daemon/dist/install-everywhere "$(DESTDIR)" "$(PREFIX)"

uninstall-everywhere:
	@daemon/dist/install-everywhere "$(DESTDIR)" "$(PREFIX)" uninstall

# Installs into a folder of its own, and removes the same files from DESTDIR; then its folders, if they
# are empty.
.PHONY: uninstall
uninstall: uninstall-everywhere
	@rm -rf $(BUILD)/installed
	@$(MAKE) --no-print-directory -s install DESTDIR=$(abspath $(BUILD))/installed
	@cd $(BUILD)/installed && find . ! -type d -exec sh -c 'for f; do rm -f "$(DESTDIR)/$$f"; done' - {} + && \
		find . -depth -type d -path '*mps*' -exec sh -c 'for f; do rmdir "$(DESTDIR)/$$f" 2>/dev/null; done' - {} +; true
	@rm -rf $(BUILD)/installed

# NVIDIA's names in a separate folder, for where `install' omits them.
COMPATDIR ?= $(PREFIX)/lib/mps/compat

.PHONY: install-compat
install-compat:
	daemon/dist/install-names "$(DESTDIR)" "$(PREFIX)/bin" "$(abspath $(COMPATDIR))"

# ---- for editors: how each file is compiled

compile_commands.json: force | $(GEN)/.stamp
	@$(MAKE) --no-print-directory -nB all softgpu unit $(CONTEXTS) | tests/compile_commands >$@

# ---- lint

.PHONY: lint
lint: all
	@CUDA_HOME=$(CUDA_HOME) GEN=$(GEN) MPS_BUILD=$(abspath $(BUILD)) tests/lint
