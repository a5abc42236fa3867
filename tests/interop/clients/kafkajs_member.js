// A member of a consumer group, said in kafkajs: see members.py for the lines that come in and go out.

const path = require('path')
const readline = require('readline')

const [modules, bootstrapServer] = process.argv.slice(2)
const { Kafka, logLevel } = require(path.join(modules, 'kafkajs'))

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: bootstrapServer.split(','),
  logLevel: logLevel.NOTHING,
  connectionTimeout: 10000,
  retry: { initialRetryTime: 100, maxRetryTime: 1000 }, // else it looks for a new leader twenty seconds later
})
const tell = what => process.stdout.write(JSON.stringify(what) + '\n')
const positions = new Map() // the next offset, by topic and partition
let assigned = []
let rebalances = 0

async function join({ group, topics, settings }) {
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: Number(settings['session.timeout.ms']),
    heartbeatInterval: Number(settings['heartbeat.interval.ms']),
    readUncommitted: settings['isolation.level'] === 'read_uncommitted',
    maxWaitTimeInMs: 200, // it sends heartbeats between its fetches
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    assigned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map(partition => [topic, partition])
    )
    rebalances += 1
    tell({ assigned, rebalances })
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => tell({ failed: String(payload.error) }))
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      positions.set(`${topic} ${partition}`, { topic, partition, offset: String(BigInt(message.offset) + 1n) })
      tell({ records: [[topic, partition, Number(message.offset), message.value.toString()]] })
    },
  })
  return consumer
}

async function commit(consumer) {
  const wanted = assigned.map(([topic, partition]) => positions.get(`${topic} ${partition}`)).filter(Boolean)
  await consumer.commitOffsets(wanted)
  tell({ committed: true })
}

async function main() {
  let consumer = null
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const said = JSON.parse(line)
    if (consumer === null) consumer = await join(said)
    else if (said.verb === 'commit') await commit(consumer).catch(error => tell({ failed: String(error) }))
    else break
  }
  if (consumer !== null) await consumer.disconnect()
  process.exit(0)
}

main()
