"""A cluster of Kafka in memory (the mock cluster of librdkafka), driven by lines on standard input.

Prints its address, then one line for each command.
"""

import ctypes
import glob
import pathlib
import sys

import confluent_kafka

libraries = pathlib.Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
library = ctypes.CDLL(glob.glob(f"{libraries}/librdkafka-*.so*")[0])
library.rd_kafka_new.restype = ctypes.c_void_p
library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
handle = library.rd_kafka_new(1, None, None, 0)
cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(handle), int(sys.argv[1])))
address = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
print(address, flush=True)


def produce(topic: str, partition: int, first: int, count: int, codec: str) -> None:
    """Every tenth value is empty."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "compression.codec": codec,
            "linger.ms": 50,
            "batch.num.messages": 500,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 2,
        }
    )
    failed = []
    for number in range(first, first + count):
        value = b"" if number % 10 == 9 else b'{"person": "p%06d", "place": "north", "n": %d}' % (number % 997, number)
        producer.produce(
            topic,
            value,
            key=b"k%d" % number,
            partition=partition,
            timestamp=1_700_000_000_000 + number,
            on_delivery=lambda error, _: error and failed.append(error),
        )
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(20) or failed:
        raise SystemExit(f"not delivered: {failed[:1]}")


def run(command: str, *words: str) -> int:
    if command == "produce":
        topic, partition, first, count, codec = words
        produce(topic, int(partition), int(first), int(count), codec)
        return 0
    numbers = [int(word) if word.isdecimal() else word.encode() for word in words]
    if command == "delete":
        numbers[2] = ctypes.c_int64(numbers[2])
    functions = {
        "create": library.rd_kafka_mock_topic_create,
        "drop": library.rd_kafka_mock_topic_delete,
        "delete": library.rd_kafka_mock_partition_delete_records,
        "leader": library.rd_kafka_mock_partition_set_leader,
        "down": library.rd_kafka_mock_broker_set_down,
        "up": library.rd_kafka_mock_broker_set_up,
        "version": library.rd_kafka_mock_set_apiversion,
    }
    if command == "version":
        numbers = [ctypes.c_int16(number) for number in numbers]
    return functions[command](cluster, *numbers)


for line in sys.stdin:
    print(run(*line.split()), flush=True)
