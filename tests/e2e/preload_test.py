"""--preload: ranks that are forked are as those that are executed. preload_deaths_test.py: and outlive what they come from."""
import importlib.util
import json
import os
import re

import harness
from harness import LocalTest

PYTHON = "/usr/bin/python3"
PROBE = os.path.join(harness.ROOT, "tests/workers/preload_probe.py")
with open(PROBE, encoding="ascii") as _file:
    PROBE_TEXT = _file.read()
# Of the environment: a worker's number, ports and the job's own names are new in each job.
NEW = re.compile(r"(TRAINRUN_(JOB_ID|KEY_FILE|RENDEZVOUS|WORKER)|MASTER_PORT|TORCHELASTIC_(RUN_ID|ERROR_FILE)|PMI_FD|"
                 r"OMPI_MCA_orte_precondition_transports)=")


class PreloadTest(LocalTest):
    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)
        return os.path.join(self.folder, name)

    def module(self, name, text):
        """A package of this test, found by PYTHONPATH."""
        os.makedirs(self.folder + "/modules", exist_ok=True)
        return self.write(f"modules/{name}.py", text)

    def run_script(self, text, *options, np=2, preload="json", env=None, rest=(), **more):
        """A script, which is preloaded unless `preload` is empty."""
        script = self.write("script.py", text)
        return self.run_job("-np", np, "--oversubscribe", *(("--preload", preload) if preload else ()), *options, PYTHON, script, *rest,
                            env={"PYTHONPATH": self.folder + "/modules", **(env or {})}, **more)

    def zygotes(self):
        return [pid for pid, command in self.processes("trainrun-zygote")]

    def ranks(self):
        return [pid for pid, command in self.processes() if command.startswith(PYTHON + " ")]

    def assertPreloaded(self, result):
        self.assertQuietOn(result, "--preload:")


class Equal(PreloadTest):
    """The same program with and without --preload sees the same."""

    def probe(self, name, *words, options=(), feed=None, env=None):
        """What the ranks of a job saw, by rank."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        words = [word.replace("FOLDER", folder) for word in words]
        done = self.run_job("-np", 2, "--oversubscribe", *options, *words, feed=feed, env=env)
        self.assertEnds(done, 0)
        self.assertPreloaded(done)
        seen = []
        for rank in range(2):
            with open(f"{folder}/rank{rank}") as file:
                text = file.read().replace(folder, "FOLDER")
            each = json.loads(text)
            for names in ("environ", "os.environ"):
                each[names] = sorted(word for word in each[names] if not NEW.match(word))
            seen.append(each)
        return seen

    def compare(self, *words, options=(), **more):
        plain = self.probe("plain", *words, options=options, **more)
        forked = self.probe("forked", *words, options=("--preload", "json,ctypes,threading", *options), **more)
        for rank in range(2):
            for key in plain[rank]:
                self.assertEqual(forked[rank][key], plain[rank][key], f"rank {rank}, {key}")
        return forked

    def test_a_script(self):
        self.assertIn("RANK=0", self.compare(PYTHON, PROBE, "FOLDER", "-x", "")[0]["os.environ"])

    def test_a_script_with_flags_by_env(self):
        self.compare("/usr/bin/env", "EXTRA=1", PYTHON, "-O", "-W", "ignore", "-Xdev", "-b", PROBE, "FOLDER")

    def test_a_module(self):
        self.write("probing.py", PROBE_TEXT)
        self.compare(PYTHON, "-m", "probing", "FOLDER")

    def test_code(self):
        self.compare(PYTHON, "-c", PROBE_TEXT, "FOLDER")

    def test_with_stdin_a_binding_and_a_terminal(self):
        self.compare(PYTHON, PROBE, "FOLDER", options=("--stdin", "all", "--bind-to", "core", "--pty"), feed=b"x\n")

    def test_with_buffers_and_own_variables(self):
        self.compare(PYTHON, PROBE, "FOLDER", options=("-x", "PYTHONUNBUFFERED=", "-x", "TZ=Asia/Tokyo", "-x", "OMP_NUM_THREADS=3"),
                     env={"PYTHONPATH": self.folder, "PYTHONHASHSEED": "5"})

    def test_where_no_locale_is_set(self):
        seen = self.compare(PYTHON, PROBE, "FOLDER", env={"LANG": ""})
        self.assertIn("LC_CTYPE=C.UTF-8", seen[0]["os.environ"])

    def test_what_it_says_and_how_it_ends(self):
        for name, text in {
                "exit": "import sys; sys.exit(3)",
                "words": "import sys; sys.exit('gone')",
                "exception": "def f():\n    raise ValueError('here')\nf()\n",
                "syntax": "x = = 1\n",
                "interrupt": "raise KeyboardInterrupt\n",
                "signal": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
                "_exit": "import os; print('a', end='', flush=True); os._exit(4)",
                "atexit": "import atexit, sys; atexit.register(print, 'at exit'); print('b', file=sys.stderr); sys.exit(5)",
                "group": "raise ExceptionGroup('g', [ValueError(1), KeyError(2)])",
                "faulthandler": "import faulthandler, os; faulthandler.enable(); os.kill(os.getpid(), 7)",
                "hook": "import sys\nsys.excepthook = lambda *e: print('hook', e[0], e[2].tb_next, e[2].tb_frame.f_code.co_name)\n1/0\n",
                "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()\n",
                "unraisable": "class A:\n    def __del__(self): raise ValueError\na = A()\n",
                "stdin": "import sys\nprint(repr(sys.stdin.read()), repr(input) [:9])\n",
        }.items():
            with self.subTest(name):
                plain, forked = (self.run_script(text, preload=preload, np=1) for preload in ("", "json"))
                self.assertPreloaded(forked)
                self.assertEqual(forked.rc, plain.rc, f"{plain}\n{forked}")
                self.assertEqual(forked.out, plain.out)
                numbers = [re.sub(r"0x[0-9a-f]+|pid \d+|\d+(\.\d+)? ?m?s\b|\d+:\d+:[\d.]+", "N", result.err) for result in (plain, forked)]
                self.assertEqual(numbers[1], numbers[0])

    def test_pickling_and_processes_in_three_ways(self):
        text = """
import multiprocessing, os, pickle, sys
class Here:
    def __eq__(self, other): return type(other) is Here
def double(x): return 2 * x, __name__, os.environ["RANK"]
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Here())) == Here(), Here.__module__)
    for way in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(way).Pool(2) as pool:
            print(way, pool.map(double, range(3)))
"""
        plain, forked = (self.run_script(text, preload=preload) for preload in ("", "json,multiprocessing"))
        self.assertEnds(forked, 0)
        self.assertEqual(sorted(forked.out.splitlines()), sorted(plain.out.splitlines()))
        self.assertPreloaded(forked)

    def test_ranks_share_no_secret_and_no_seed(self):
        text = """
import multiprocessing, os, random, threading
print("own", multiprocessing.current_process().authkey.hex(), random.random(), threading.main_thread().native_id == os.getpid(), flush=True)
"""
        done = self.assertEnds(self.run_script(text, preload="random,multiprocessing,threading"), 0)
        keys, numbers, natives = zip(*[line.split("own ")[1].split() for line in done.out.splitlines()])
        self.assertEqual([len(set(keys)), len(set(numbers)), set(natives)], [2, 2, {"True"}])

    def test_what_imports_leave_for_the_end_is_done_once(self):
        self.module("leaver", """
import atexit, tempfile, logging
folder = tempfile.TemporaryDirectory()
atexit.register(print, "bye")
def own(): open(__file__ + ".ends", "a").write("x")
atexit.register(own)
""")
        done = self.run_script("import leaver, os; print('there', os.path.isdir(leaver.folder.name))", preload="leaver", np=3)
        self.assertEnds(done, 0)
        self.assertEqual(done.out.count("there True"), 3)
        with open(self.folder + "/modules/leaver.py.ends") as file:
            self.assertEqual(file.read(), "x")


class Imported(PreloadTest):
    """What is imported, once, and what is left out."""

    def test_once_for_all_ranks_and_generations(self):
        self.module("counted", "open(__file__ + '.times', 'a').write('x')\n")
        done = self.run_script("""
import counted, os, sys
print("generation", os.environ["TRAINRUN_GENERATION"], "counted" in sys.modules, flush=True)
if os.environ["TRAINRUN_GENERATION"] == "1" and os.environ["RANK"] == "1": os.kill(os.getpid(), 9)
if os.environ["TRAINRUN_GENERATION"] == "1": import signal; signal.pause()
""", "--on-failure", "restart-world", preload="counted", np=3)
        self.assertEnds(done, 0)
        self.assertPreloaded(done)
        self.assertEqual(done.out.count("generation 2 True"), 3)
        with open(self.folder + "/modules/counted.py.times") as file:
            self.assertEqual(file.read(), "x")

    def test_a_changed_package_is_imported_anew(self):
        path = self.module("changing", "value = 1\n")
        done = self.run_script(f"""
import changing, os, sys
print("value", changing.value, flush=True)
if os.environ["TRAINRUN_GENERATION"] == "1":
    if os.environ["RANK"] == "0":
        open({path!r}, "w").write("value = 22\\n")
        sys.exit(1)
    import signal; signal.pause()
""", "--on-failure", "restart-world", preload="changing")
        self.assertEnds(done, 0)
        self.assertSays(done, "--preload: a package has changed and is imported anew")
        self.assertEqual(done.out.count("value 22"), 2)

    def test_auto_takes_what_is_installed_and_the_script_imports(self):
        self.module("beside", "")
        done = self.run_script("""
import os, sys
before = set(sys.modules)
import numpy, json, beside, script_neighbour
try: import missing_package
except ImportError: pass
def later(): import yaml
print("ahead", "numpy" in before, "beside" in before, "script_neighbour" in before)
""" if self.write("script_neighbour.py", "") else "", preload="auto")
        self.assertEnds(done, 0)
        self.assertPreloaded(done)
        self.assertEqual(done.out.count("ahead True False False"), 2)

    def test_auto_with_nothing_to_import(self):
        done = self.assertEnds(self.run_script("print('ran')", preload="auto"), 0)
        self.assertEqual(done.err.count("the script's own imports name no installed package; ranks are started without it"), 1)
        self.assertEqual(done.out.count("ran"), 2)

    def test_a_package_that_reads_the_rank_is_left_out(self):
        self.module("reader", "import os\nrank = int(os.environ.get('RANK', 0))\n")
        self.module("other", "import sys\nsys.stderr.write('imported other\\n')")
        done = self.run_script("import sys; ahead = 'reader' in sys.modules, 'other' in sys.modules; import reader; print('rank is', reader.rank, ahead)",
                               preload="other,reader")
        self.assertEnds(done, 0)
        self.assertEqual(done.err.count("--preload: reader is left out: reader reads RANK while it is imported"), 1)
        self.assertIn("rank is 1 (False, True)", done.out)
        alone = self.assertEnds(self.run_script("import reader; print('rank is', reader.rank)", preload="reader"), 0)
        self.assertSays(alone, "nothing is left to import; ranks are started without it")
        self.assertIn("rank is 1", alone.out)

    def test_the_ranks_of_known_packages_are_set_right(self):
        os.makedirs(self.folder + "/modules/lightning_utilities/core")
        self.module("lightning_utilities/core/rank_zero", "def rank_zero_only(): pass\n")
        for package, variable in (("lightning_fabric/utilities/rank_zero", "RANK"), ("torchmetrics/utilities/prints", "LOCAL_RANK")):
            os.makedirs(self.folder + "/modules/" + os.path.dirname(package))
            own = "from lightning_utilities.core.rank_zero import rank_zero_only" if variable == "RANK" else "def rank_zero_only(): pass"
            self.module(package, f"import os\n{own}\nrank_zero_only.rank = int(os.environ.get('{variable}', 0))\n")
        done = self.run_script("""
import sys; ahead = "lightning_fabric" in sys.modules
from lightning_fabric.utilities.rank_zero import rank_zero_only as one
from torchmetrics.utilities.prints import rank_zero_only as other
print("they say", one.rank, other.rank, ahead)
""", preload="lightning_fabric.utilities.rank_zero,torchmetrics.utilities.prints")
        self.assertEnds(done, 0)
        self.assertPreloaded(done)
        self.assertEqual(sorted(re.findall(r"they say.*", done.out)), ["they say 0 0 True", "they say 1 1 True"])

    def test_no_rank_variable_is_there(self):
        self.module("looker", "import os, subprocess\nseen = sorted(os.environ)\nkids = subprocess.run(['env'], stdout=subprocess.PIPE, text=True).stdout\n")
        done = self.run_script("""
import looker
bad = [name for name in looker.seen if name in ("RANK", "LOCAL_RANK") or name.startswith("TRAINRUN")]
print("found", bad, "TRAINRUN_PRELOAD" in looker.kids, "sitecustomize" in looker.kids, "HOME" in looker.seen)
""", preload="looker")
        self.assertEnds(done, 0)
        self.assertEqual(done.out.count("found [] False False True"), 2)


class Torch(PreloadTest):
    def test_ddp_goes_on_after_a_kill_9_without_importing_again(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("/usr/bin/python3 has no torch (Debian's python3-torch)")
        os.mkdir(self.folder + "/steps")
        done = self.run_job("-np", 2, "--oversubscribe", "--max-restarts", 1, "--preload", "auto", "-x", "OMP_NUM_THREADS=2", PYTHON,
                            os.path.join(harness.ROOT, "tests/workers/torch_steps.py"), self.folder + "/steps", timeout=150)
        self.assertEnds(done, 0)
        self.assertPreloaded(done)
        self.assertEqual(sorted(os.listdir(self.folder + "/steps")), ["first.0", "first.1", "restarted", "second.0", "second.1"])
        self.assertEqual(sorted(re.findall(r"rank (\d) ahead (\w+) threads (\d)", done.out)), [("0", "True", "2")] * 2 + [("1", "True", "2")] * 2)


class Fallbacks(PreloadTest):
    """Each is told once, and the ranks run."""

    def assertPlain(self, result, why, np=2):
        self.assertEnds(result, 0)
        self.assertEqual(len(re.findall(r"--preload: .*without it", result.err)), 1, str(result))
        self.assertSays(result, why)
        self.assertEqual(result.out.count("ran"), np, str(result))
        return result

    def test_an_import_that_fails(self):
        self.module("broken", "raise RuntimeError('no way')\n")
        self.assertPlain(self.run_script("print('ran')", preload="json,broken"),
                         "--preload: import broken failed: RuntimeError: no way; ranks are started without it")
        self.assertPlain(self.run_script("print('ran')", preload="no_such_module"), "import no_such_module failed: ModuleNotFoundError")

    def test_an_import_that_hangs(self):
        self.module("hanging", "import time\nif __import__('os').environ.get('RANK') is None: time.sleep(600)\n")
        done = self.run_script("print('ran')", "--start-timeout", "1", preload="hanging")
        self.assertPlain(done, r"the imports took longer than [\d.]+ s \(--start-timeout\); ranks are started without it")

    def test_imports_that_end_the_process(self):
        self.module("ending", "import os\nos._exit(7)\n")
        self.assertPlain(self.run_script("print('ran')", preload="ending"), "the imports failed: .*7.*; ranks are started without it")
        self.module("exiting", "import sys\nsys.exit(3)\n")
        self.assertPlain(self.run_script("print('ran')", preload="exiting"), "import exiting failed: SystemExit: 3")

    def test_imports_that_start_a_thread(self):
        self.module("threaded", "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n")
        self.assertPlain(self.run_script("print('ran')", preload="threaded"), "the imports have started threads")

    def test_what_cannot_be_preloaded(self):
        self.write("script.sh", "echo ran\n")
        done = self.run_job("-np", 2, "--oversubscribe", "--preload", "json", "/bin/sh", self.folder + "/script.sh")
        self.assertPlain(done, "--preload: '?/bin/sh'? is started without it: it is no python3")
        self.assertPlain(self.run_job("-np", 2, "--oversubscribe", "--preload", "json", PYTHON, "-I", "-c", "print('ran')"),
                         "with -I Python cannot be made to import ahead")

    def test_an_interpreter_that_hides_our_file(self):
        wrapper = self.write("python3", f"#!/bin/sh\nunset PYTHONPATH\nexec {PYTHON} \"$@\"\n")
        os.chmod(wrapper, 0o755)
        script = self.write("script.py", "import os; print('ran', os.environ['RANK'])")
        self.assertPlain(self.run_job("-np", 2, "--oversubscribe", "--preload", "json", wrapper, script),
                         "this interpreter runs no sitecustomize of PYTHONPATH")

    def test_an_interpreter_by_a_wrapper(self):
        wrapper = self.write("python3", f"#!/bin/sh\nexec {PYTHON} \"$@\"\n")
        os.chmod(wrapper, 0o755)
        script = self.write("script.py", "import sys; print('ran', 'decimal' in sys.modules)")
        done = self.assertEnds(self.run_job("-np", 2, "--oversubscribe", "--preload", "decimal", wrapper, script), 0)
        self.assertPreloaded(done)
        self.assertEqual(done.out.count("ran True"), 2)

    def test_a_variable_that_differs(self):
        script = self.write("script.py", "print('ran')")
        done = self.run_job("-np", 1, "--preload", "json", "-x", "PYTHONHASHSEED=1", PYTHON, script, ":", "-np", 1, "-x", "PYTHONHASHSEED=2", PYTHON, script)
        self.assertEnds(done, 0)  # a zygote for each part
        self.assertPreloaded(done)


if __name__ == "__main__":
    harness.main()
