// The kafkajs client of the matrix, called as the matrix calls the clients that it starts. It only writes: kafkajs reads
// as a member of a group alone.
'use strict'

const readline = require('node:readline')

const BATCH = 500 // records in one request

let kafkajs
try {
  kafkajs = require('kafkajs')
} catch (absent) {
  console.error(absent.message)
  process.exit(3)
}
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = kafkajs

// What kafkajs leaves to others. Reading is not asked of it, so each codec only packs.
const packers = {
  snappy: () => [CompressionTypes.Snappy, require('kafkajs-snappy')],
  lz4: () => {
    const lz4 = require('lz4-napi')
    return [CompressionTypes.LZ4, () => ({ compress: (encoder) => lz4.compressFrame(encoder.buffer) })]
  },
  zstd: () => {
    const zstd = require('@mongodb-js/zstd')
    return [CompressionTypes.ZSTD, () => ({ compress: (encoder) => zstd.compress(encoder.buffer) })]
  },
}

function compression(codec) {
  if (codec === 'none') return CompressionTypes.None
  if (codec === 'gzip') return CompressionTypes.GZIP
  const [type, packer] = packers[codec]()
  CompressionCodecs[type] = packer
  return type
}

async function produce(seeds, topic, codec) {
  const kafka = new Kafka({ clientId: 'matrix', brokers: seeds.split(','), logLevel: logLevel.ERROR })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  const type = compression(codec)
  await producer.connect()
  let messages = []
  const send = async () => {
    const metadata = await producer.send({ topic, messages, acks: -1, compression: type })
    const refused = metadata.find((m) => m.errorCode !== 0)
    if (refused) throw new Error(`partition ${refused.partition}: error ${refused.errorCode}`)
    messages = []
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [key, value, client, n] = line.split('\t')
    messages.push({ key, value, headers: { client, n } })
    if (messages.length === BATCH) await send()
  }
  if (messages.length > 0) await send()
  await producer.disconnect()
}

async function main([verb, ...args]) {
  if (verb === 'version') return console.log(require('kafkajs/package.json').version)
  if (verb === 'produce' && args.length === 3) return produce(...args)
  throw new Error('usage: version | produce SEEDS TOPIC CODEC')
}

main(process.argv.slice(2)).catch((fault) => {
  console.error(fault)
  process.exit(1)
})
