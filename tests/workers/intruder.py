"""Tries what another user may not: intruder.py UID PORT PATH... Becomes that user (0: stays what it is), prints what
became of opening each path for reading, connects to 127.0.0.1:PORT, says something, and prints what it heard."""
import os
import socket
import sys

user, port, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
if user != 0:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
for path in paths:
    try:
        os.close(os.open(path, os.O_RDONLY))
        print(path, "is open")
    except OSError as error:
        print(path, error.strerror)
with socket.create_connection(("127.0.0.1", port)) as connection:
    try:
        connection.sendall(b"let me in" * 100)
        heard = b"".join(iter(lambda: connection.recv(4096), b""))
    except ConnectionError:
        heard = b""
print("heard", len(heard), "bytes")
