"""Bytes from the network: sockets, whatever client stands above them."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "socket": {
        "socket.recv": Call("read (network)"),
        "socket.recv_into": Call("read (network)"),
        "create_connection": Call("connect (network)"),
    },
    "ssl": {
        "SSLSocket.read": Call("read (network)"),
        "SSLSocket.recv": Call("read (network)"),
        "SSLSocket.recv_into": Call("read (network)"),
    },
    "urllib3.response": {"HTTPResponse.read": Call("read (network)")},
}
