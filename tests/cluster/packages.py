# SPDX-License-Identifier: Apache-2.0
"""Ray, Dask and Numba of the registry, in an environment of its own (tests/suites/suite.py)."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "suites"))

import suite  # pylint: disable=wrong-import-position

NUMBA = suite.load(os.path.join(suite.CATALOGUE, "numba.py"))
TITLE = DISTRIBUTION = PACKAGE = "ray"
REQUIREMENTS = NUMBA.REQUIREMENTS + """
    ray==2.60.0 dask==2026.8.0 distributed==2026.8.0 attrs==26.1.0 certifi==2026.10.19.post1
    charset_normalizer==3.5.2 click==8.5.1 cloudpickle==3.1.3 filelock==4.2.12 fsspec==2026.9.0
    idna==3.20 importlib_metadata==10.2.0 jinja2==3.1.6 jsonschema==4.26.0
    jsonschema_specifications==2025.9.1 lazy_importer==0.1.0 locket==1.0.0 markupsafe==3.0.4
    msgpack==1.2.4 partd==1.4.2 protobuf==7.36.2 psutil==7.2.2 pyyaml==6.0.4 referencing==0.37.0
    requests==2.34.2 rpds_py==2026.9.1 sortedcontainers==2.4.0 tblib==3.2.2 toolz==1.2.0
    tornado==6.6.1 typing_extensions==4.16.0 urllib3==2.8.0 zict==3.0.0 zipp==4.1.2""".split()
prepare = NUMBA.prepare
