# SPDX-License-Identifier: Apache-2.0
#
# Packages; part of the Makefile.

.PHONY: deb
deb:
	CUDA_HOME=$(CUDA_HOME) daemon/dist/build-deb $(VERSION) $(abspath $(BUILD))/deb

.PHONY: dist
dist:
	@mkdir -p $(BUILD)
	git archive --prefix=warpshare-$(VERSION)/ -o $(BUILD)/warpshare-$(VERSION).tar.gz HEAD

# For other systems: works where it is unpacked, and has a script that installs it elsewhere.
TARBALL := mps-$(VERSION)-linux-$(shell uname -m)

.PHONY: tarball
tarball: all softgpu
	rm -rf $(BUILD)/tarball
	$(MAKE) --no-print-directory -s install DESTDIR=$(abspath $(BUILD))/tarball/ PREFIX=$(TARBALL) \
		VENDOR_NAMES=
	rm -r $(BUILD)/tarball/$(TARBALL)/lib/systemd
	install -m 755 daemon/dist/install-tarball $(BUILD)/tarball/$(TARBALL)/install
	install -d $(BUILD)/tarball/$(TARBALL)/share/mps
	install -m 644 daemon/dist/mps-control.service daemon/dist/mps-control.socket \
		$(BUILD)/tarball/$(TARBALL)/share/mps
	install -m 755 daemon/dist/install-names daemon/dist/install-everywhere $(BUILD)/tarball/$(TARBALL)/share/mps
	strip --strip-debug $(addprefix $(BUILD)/tarball/$(TARBALL)/,bin/mps-control bin/mps-server bin/mps-top bin/mps-exporter \
		lib/mps/libmpsclient.so lib/mps/mps-check lib/mps/softgpu/libcuda.so.1)
	tar -C $(BUILD)/tarball --owner=0 --group=0 --sort=name -czf $(BUILD)/$(TARBALL).tar.gz $(TARBALL)
	@echo $(BUILD)/$(TARBALL).tar.gz
