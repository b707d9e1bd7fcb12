"""A gRPC server that works on bytes, so that nothing has to be generated. Prints its port."""

import sys
import time
from concurrent import futures

import grpc

TRAILER = ("x-kept", "to the end")


def once(request, context):
    context.set_trailing_metadata((TRAILER,))
    return request


def count(request, context):
    context.set_trailing_metadata((TRAILER,))
    for number in range(int(request)):
        yield str(number).encode() * 100


def chat(requests, context):
    for request in requests:
        yield b"re: " + request


def fail(request, context):
    context.set_trailing_metadata((TRAILER,))
    context.abort(grpc.StatusCode.DATA_LOSS, "gone: " + request.decode())


def sleep(request, context):
    time.sleep(float(request))
    return b"late"


class Echo(grpc.GenericRpcHandler):
    METHODS = {
        "/test.Echo/Once": grpc.unary_unary_rpc_method_handler(once),
        "/test.Echo/Count": grpc.unary_stream_rpc_method_handler(count),
        "/test.Echo/Chat": grpc.stream_stream_rpc_method_handler(chat),
        "/test.Echo/Fail": grpc.unary_unary_rpc_method_handler(fail),
        "/test.Echo/Sleep": grpc.unary_unary_rpc_method_handler(sleep),
    }

    def service(self, details):
        return self.METHODS.get(details.method)


if __name__ == "__main__":
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((Echo(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()  # until whoever started this is gone
