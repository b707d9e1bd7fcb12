"""Calls the server of grpc_server.py through a gateway: python grpc_client.py HOST:PORT [CA]"""

import sys
from concurrent import futures

import grpc

TRAILER = ("x-kept", "to the end")


def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except grpc.RpcError as error:
        return error
    raise AssertionError("it was not refused")


def main(target, ca=None):
    if ca:
        with open(ca, "rb") as file:
            channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(file.read()))
    else:
        channel = grpc.insecure_channel(target)
    with channel:
        once = channel.unary_unary("/test.Echo/Once")
        for size in [0, 1, 100_000, 500_000]:
            answer, call = once.with_call(b"x" * size, timeout=60)
            assert answer == b"x" * size, size
            assert TRAILER in call.trailing_metadata(), call.trailing_metadata()

        stream = channel.unary_stream("/test.Echo/Count")(b"500", timeout=60)
        assert [len(part) for part in stream] == [len(str(n)) * 100 for n in range(500)]
        assert TRAILER in stream.trailing_metadata()

        chat = channel.stream_stream("/test.Echo/Chat")(iter([b"a", b"b", b"c"]), timeout=60)
        assert list(chat) == [b"re: a", b"re: b", b"re: c"]

        error = refused(channel.unary_unary("/test.Echo/Fail"), b"it", timeout=60)
        assert error.code() == grpc.StatusCode.DATA_LOSS, error
        assert error.details() == "gone: it", error.details()
        assert TRAILER in error.trailing_metadata()

        error = refused(channel.unary_unary("/test.Echo/Sleep"), b"5", timeout=0.3)
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error

        error = refused(channel.unary_unary("/test.Echo/Unknown"), b"", timeout=60)
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        error = refused(channel.unary_unary("/test.Elsewhere/Once"), b"", timeout=60)
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error

        with futures.ThreadPoolExecutor(16) as pool:
            calls = [pool.submit(once, str(n).encode(), timeout=60) for n in range(400)]
            assert [call.result() for call in calls] == [str(n).encode() for n in range(400)]
    print("every call was answered as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
