// The verbs of the tests, said in kafkajs. Lines of JSON come in on stdin, each is answered with one on stdout.
//
// kafkajs consumes in groups only. To read assigned partitions, `consume` uses the parts that its consumer is made of:
// the cluster with its connections, the fetch request, and the batch that filters what came.

const fs = require('fs')
const path = require('path')
const readline = require('readline')

const [modules, bootstrapServer] = process.argv.slice(2)
const load = name => require(path.join(modules, name))
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = load('kafkajs')
const Cluster = load('kafkajs/src/cluster')
const Batch = load('kafkajs/src/consumer/batch')
const { createLogger } = load('kafkajs/src/loggers')
const consoleLogger = load('kafkajs/src/loggers/console')
const createSocketFactory = load('kafkajs/src/network/socketFactory')

const WAIT_MS_MAX = 60000
const BATCH_BYTES_MAX = 900000
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: bootstrapServer.split(','),
  logLevel: logLevel.NOTHING,
  connectionTimeout: 10000,
})

function plugInCodecs() {
  const lz4 = load('lz4-napi')
  CompressionCodecs[CompressionTypes.Snappy] = load('kafkajs-snappy')
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async encoder => lz4.compressFrame(encoder.buffer),
    decompress: async buffer => lz4.decompressFrame(buffer),
  })
  const zstd = new Promise(resolve =>
    load('zstd-codec').ZstdCodec.run(found => resolve(new found.Streaming()))
  )
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async encoder => Buffer.from((await zstd).compress(encoder.buffer, 3)),
    decompress: async buffer => Buffer.from((await zstd).decompress(buffer)),
  })
}

const CODECS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

// --- records in files: see client.py

function readRecords(file) {
  const data = fs.readFileSync(file)
  let position = 0
  const int = () => data.readInt32BE((position += 4) - 4)
  const long = () => data.readBigInt64BE((position += 8) - 8)
  const bytes = () => {
    const size = int()
    return size < 0 ? null : data.subarray(position, (position += size))
  }
  const records = []
  while (position < data.length) {
    const record = { partition: int(), timestamp: long(), offset: long(), key: bytes(), value: bytes() }
    const headers = {}
    for (let left = int(); left > 0; left--) {
      const name = bytes().toString()
      const value = bytes()
      headers[name] = name in headers ? [].concat(headers[name], [value]) : value
    }
    records.push({ ...record, headers })
  }
  return records
}

function writeRecords(file, records) {
  const parts = []
  const int = value => {
    const part = Buffer.alloc(4)
    part.writeInt32BE(value)
    parts.push(part)
  }
  const long = value => {
    const part = Buffer.alloc(8)
    part.writeBigInt64BE(BigInt(value))
    parts.push(part)
  }
  const bytes = value => {
    int(value === null || value === undefined ? -1 : value.length)
    if (value) parts.push(value)
  }
  for (const record of records) {
    int(record.partition)
    long(record.timestamp ?? -1)
    long(record.offset)
    bytes(record.key)
    bytes(record.value)
    const headers = Object.entries(record.headers || {}).flatMap(([name, values]) =>
      [].concat(values).map(value => [name, value])
    )
    int(headers.length)
    for (const [name, value] of headers) {
      bytes(Buffer.from(name))
      bytes(value)
    }
  }
  fs.writeFileSync(file, Buffer.concat(parts))
}

// --- produce and consume

// kafkajs makes one batch per partition of what it is handed at once.
function* chunks(records) {
  let chunk = []
  let size = 0
  for (const record of records) {
    const more = (record.key || '').length + (record.value || '').length + 100
    if (chunk.length && size + more > BATCH_BYTES_MAX) {
      yield chunk
      chunk = []
      size = 0
    }
    chunk.push(record)
    size += more
  }
  if (chunk.length) yield chunk
}

const asMessage = ({ partition, timestamp, key, value, headers }) => ({
  ...(partition >= 0 ? { partition } : {}), // without one its partitioner is asked
  key,
  value,
  headers,
  ...(timestamp >= 0n ? { timestamp: String(timestamp) } : {}),
})

async function produce({ topic, file, codec, acks, idempotent, transactional_id, commit }) {
  const producer = kafka.producer({
    idempotent: idempotent || Boolean(transactional_id),
    ...(transactional_id ? { transactionalId: transactional_id, maxInFlightRequests: 1 } : {}),
  })
  await producer.connect()
  try {
    const transaction = transactional_id ? await producer.transaction() : null
    for (const chunk of chunks(readRecords(file))) {
      await (transaction || producer).send({
        topic,
        acks: acks === 'all' ? -1 : Number(acks),
        compression: CompressionTypes[CODECS[codec]],
        messages: chunk.map(asMessage),
      })
    }
    if (transaction) await (commit ? transaction.commit() : transaction.abort())
  } finally {
    await producer.disconnect()
  }
}

// --- transactions, step by step

const transactionals = []

async function openTransactional({ transactional_id, timeout_ms }) {
  if (transactional_id === null) return openSender()
  const producer = kafka.producer({
    idempotent: true,
    transactionalId: transactional_id,
    transactionTimeout: timeout_ms,
    maxInFlightRequests: 1,
    retry: { initialRetryTime: 50, retries: 8 },
  })
  await producer.connect()
  transactionals.push({ producer, transaction: null })
  // kafkajs takes the id over with the first transaction only.
  await begin({ txn: transactionals.length - 1 })
  return transactionals.length - 1
}

// An idempotent producer without transactions: it retries for as long as it takes.
async function openSender() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  return transactionals.push({ producer, transaction: producer }) - 1
}

async function begin({ txn }) {
  const ours = transactionals[txn]
  if (ours.transaction === null || !ours.transaction.isActive()) ours.transaction = await ours.producer.transaction()
}

async function send({ txn, topic, file }) {
  const { producer, transaction } = transactionals[txn]
  const messages = readRecords(file).map(asMessage)
  if (transaction !== producer) return transaction.send({ topic, acks: -1, messages })
  // One partition at a time: of several, kafkajs forgets those whose leader moves to a broker that answered already.
  for (const partition of new Set(messages.map(each => each.partition)))
    await producer.send({ topic, acks: -1, messages: messages.filter(each => each.partition === partition) })
}

const sendOffsets = ({ txn, group, topic, offsets }) =>
  transactionals[txn].transaction.sendOffsets({
    consumerGroupId: group,
    topics: [
      {
        topic,
        partitions: Object.entries(offsets).map(([partition, offset]) => ({
          partition: Number(partition),
          offset: String(offset),
        })),
      },
    ],
  })

const createCluster = () =>
  new Cluster({
    logger: createLogger({ level: logLevel.NOTHING, logCreator: consoleLogger }),
    socketFactory: createSocketFactory(),
    brokers: bootstrapServer.split(','),
    clientId: 'kafkajs',
    connectionTimeout: 10000,
    requestTimeout: 30000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: false,
    retry: {},
  })

async function consume({ topic, starts, count, isolation, file }) {
  const cluster = createCluster()
  await cluster.connect()
  const found = []
  try {
    await cluster.addTargetTopic(topic)
    const positions = new Map(Object.entries(starts).map(([p, offset]) => [Number(p), BigInt(offset)]))
    const deadline = Date.now() + WAIT_MS_MAX
    while (found.length < count && Date.now() < deadline) {
      for (const batch of await fetchOnce(cluster, topic, positions, isolation)) {
        if (!batch.rawMessages.length) continue
        positions.set(batch.partition, BigInt(batch.lastOffset()) + 1n)
        found.push(...batch.messages.map(message => ({ ...message, partition: batch.partition })))
      }
    }
  } finally {
    await cluster.disconnect()
  }
  writeRecords(file, found.slice(0, count))
}

async function fetchOnce(cluster, topic, positions, isolation) {
  const leaders = cluster.findLeaderForPartitions(topic, [...positions.keys()])
  const batches = []
  for (const [nodeId, partitions] of Object.entries(leaders)) {
    const broker = await cluster.findBroker({ nodeId })
    const { responses } = await broker.fetch({
      isolationLevel: isolation === 'read_committed' ? 1 : 0,
      maxWaitTime: 500,
      topics: [
        {
          topic,
          partitions: partitions.map(partition => ({
            partition,
            fetchOffset: String(positions.get(partition)),
            maxBytes: 1048576,
          })),
        },
      ],
    })
    for (const response of responses)
      for (const data of response.partitions)
        batches.push(new Batch(topic, String(positions.get(data.partition)), data))
  }
  return batches
}

async function groupConsume({ topic, group, count, file }) {
  const consumer = kafka.consumer({ groupId: group })
  await consumer.connect()
  const found = new Map() // by place: a group that rebalances may hand out a record again
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await new Promise((resolve, reject) => {
      setTimeout(resolve, WAIT_MS_MAX).unref()
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      const eachMessage = async ({ partition, message }) => {
        found.set(`${partition} ${message.offset}`, { ...message, partition })
        if (found.size >= count) resolve()
      }
      consumer.run({ eachMessage }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
  writeRecords(file, [...found.values()])
}

// --- administration

async function withAdmin(work) {
  const admin = kafka.admin({ retry: { initialRetryTime: 50, retries: 4 } })
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

const TOPIC = ConfigResourceTypes.TOPIC
const entries = configs => Object.entries(configs).map(([name, value]) => ({ name, value }))
const ofPartition = (rows, partition) => rows.find(row => row.partition === partition)

async function createTopic(admin, { topic, partitions, configs, replicas }) {
  const wanted = { topic, numPartitions: partitions, replicationFactor: replicas, configEntries: entries(configs) }
  const isNew = await admin.createTopics({ topics: [wanted], timeout: 30000 })
  // The client answers false, and nothing else, when the topic exists.
  if (!isNew) throw Object.assign(new Error('the topic exists'), { code: 36 })
}

async function topicConfigs(admin, { topic }) {
  const { resources } = await admin.describeConfigs({ resources: [{ type: TOPIC, name: topic }] })
  return Object.fromEntries(resources[0].configEntries.map(each => [each.configName, each.configValue]))
}

const ADMINISTRATION = {
  create_topic: createTopic,
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic], timeout: 30000 }),
  list_topics: admin => admin.listTopics(),
  partition_count: async (admin, { topic }) =>
    (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length,
  topic_configs: topicConfigs,
  alter_config: (admin, { topic, key, value }) =>
    admin.alterConfigs({ resources: [{ type: TOPIC, name: topic, configEntries: entries({ [key]: value }) }] }),
  create_partitions: (admin, { topic, count }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count }], timeout: 30000 }),
  delete_records: async (admin, { topic, partition, before }) => {
    await admin.fetchTopicOffsets(topic) // or the client would not know who leads the partition
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  },
  describe_cluster: async admin => (await admin.describeCluster()).brokers.map(each => `${each.host}:${each.port}`),
  watermarks: async (admin, { topic, partition }) => {
    const { low, high } = ofPartition(await admin.fetchTopicOffsets(topic), partition)
    return [Number(low), Number(high)]
  },
  offset_for_time: async (admin, { topic, partition, timestamp }) =>
    Number(ofPartition(await admin.fetchTopicOffsetsByTimestamp(topic, timestamp), partition).offset),
}

const OTHERS = {
  version: async () => load('kafkajs/package.json').version,
  produce,
  consume,
  group_consume: groupConsume,
  txn_open: openTransactional,
  txn_begin: begin,
  txn_send: send,
  txn_offsets: sendOffsets,
  txn_commit: ({ txn }) => transactionals[txn].transaction.commit(),
  txn_abort: ({ txn }) => transactionals[txn].transaction.abort(),
  txn_close: ({ txn }) => transactionals[txn].producer.disconnect(),
}

async function answer(request) {
  const { verb } = request
  if (verb in OTHERS) return OTHERS[verb](request)
  return withAdmin(admin => ADMINISTRATION[verb](admin, request))
}

// kafkajs wraps what a broker said, sometimes twice.
function codeOf(error) {
  for (let each = error; each; each = each.cause || (each.errors && each.errors[0]) || each.originalError)
    if (typeof each.code === 'number') return each.code
  return -1
}

async function main() {
  plugInCodecs()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let reply
    try {
      reply = { result: (await answer(JSON.parse(line))) ?? null }
    } catch (error) {
      reply = { error: `${error.name}: ${error.message}`, code: codeOf(error) }
    }
    process.stdout.write(JSON.stringify(reply) + '\n')
  }
  process.exit(0)
}

main()
