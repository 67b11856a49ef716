// write-file-atomic: a file is either absent, or has the whole content of one version.
const fs = require("fs"), write = require("write-file-atomic");
function mark(text) { fs.writeSync(1, `mark ${text}\n`); fs.readSync(0, Buffer.alloc(16)); }
if (process.argv[2] === "work") {
  for (let n = 1; n <= 10; n++) {
    write.sync(`settings-${n}.json`, JSON.stringify({ n, filling: "x".repeat(5000) }));
    mark(n);
  }
} else {
  for (let n = 1; n <= 10; n++) {
    const name = `settings-${n}.json`;
    if (fs.existsSync(name)) {
      const text = fs.readFileSync(name, "utf8");
      try {
        JSON.parse(text);
      } catch {
        console.log(`${name} is torn: ${text.length} bytes`);
        process.exit(1);
      }
    }
  }
}
