// Prints the rows of Parquet files as JSON, one a line, as two readers see them: hyparquet, and arrow-rs in parquet-wasm.
//
//	node read.js hyparquet|arrow FILE...
import { readFileSync } from 'node:fs'
import { tableFromIPC } from 'apache-arrow'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import parquet from 'parquet-wasm/node'

async function* read(reader, path) {
  if (reader === 'hyparquet') {
    yield* await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors })
    return
  }
  for (const row of tableFromIPC(parquet.readParquet(readFileSync(path)).intoIPCStream())) yield row.toJSON()
}

function plain(key, value) {
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  return value
}

const [reader, ...paths] = process.argv.slice(2)
for (const path of paths) {
  for await (const row of read(reader, path)) console.log(JSON.stringify(row, plain))
}
