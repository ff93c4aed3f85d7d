"""The confluent-kafka client of the matrix, called as the matrix calls the clients that it starts."""

import sys

PATIENCE = 60.0  # seconds; bounds each wait for the cluster

try:
    import confluent_kafka as ck
except ImportError as absent:
    print(absent, file=sys.stderr)
    sys.exit(3)


def produce(seeds, topic, codec):
    faults = []
    producer = ck.Producer(
        {
            "bootstrap.servers": seeds,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": codec,
            "queue.buffering.max.messages": 1_000_000,
        }
    )

    def delivered(error, _):
        if error is not None:
            faults.append(error)

    for line in sys.stdin:
        key, value, client, number = line.rstrip("\n").split("\t")
        producer.produce(topic, key=key, value=value, headers=[("client", client), ("n", number)], on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(PATIENCE)
    if left:
        sys.exit(f"{left} records were not acknowledged within {PATIENCE} s")
    if faults:
        sys.exit(f"{len(faults)} records failed, the first with {faults[0]}")


def consume(seeds, topic, ends):
    consumer = ck.Consumer(
        {"bootstrap.servers": seeds, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error"}
    )
    consumer.assign([ck.TopicPartition(topic, p, 0) for p in range(len(ends))])
    for _ in range(sum(ends)):
        message = consumer.poll(PATIENCE)
        if message is None:
            sys.exit(f"nothing came within {PATIENCE} s")
        if message.error():
            sys.exit(str(message.error()))
        headers = ",".join(f"{name}={value.decode()}" for name, value in message.headers() or [])
        print(message.partition(), message.offset(), message.key().decode(), message.value().decode(), headers, sep="\t")
    consumer.close()


match sys.argv[1:]:
    case ["version"]:
        print(f"{ck.__version__}, librdkafka {ck.libversion()[0]}")
    case ["produce", seeds, topic, codec]:
        produce(seeds, topic, codec)
    case ["consume", seeds, topic, *ends]:
        consume(seeds, topic, [int(e) for e in ends])
    case _:
        sys.exit("usage: version | produce SEEDS TOPIC CODEC | consume SEEDS TOPIC END...")
