#!/usr/bin/python3
"""More members than strangers are let in at once come through one door in the same moment: none is cut off."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness

# A client hello each; the server's hello is the answer. All are unproven together, which is what a world looks like
# whose processes were started in the same moment.
MEMBERS = 1100
BURST = f"""
import os, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
host, port = os.environ["TRAINRUN_RENDEZVOUS"].rsplit(":", 1)
members = []
for i in range({MEMBERS}):
    member = socket.create_connection((host, int(port)), timeout=60)
    member.sendall(b"trnrdc\\x06\\x00" + os.urandom(32))
    members.append(member)
answered = sum(1 for member in members if member.recv(1))
cut_off = 0
for member in members:  # whoever was closed for a later one was closed before that one was answered
    member.setblocking(False)
    try:
        while True:
            if not member.recv(4096):
                cut_off += 1
                break
    except BlockingIOError:
        pass
print("answered", answered, "cut off", cut_off)
"""


class Burst(harness.LocalTest):
    def test_no_member_of_a_burst_is_cut_off(self):
        result = self.assertEnds(self.run_job("-np", "1", "/usr/bin/python3", "-c", BURST), 0)
        self.assertEqual(result.out, f"answered {MEMBERS} cut off 0\n")


if __name__ == "__main__":
    harness.main()
