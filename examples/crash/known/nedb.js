// NeDB: the datafile is rewritten by each compaction; documents that were on the drive before must
// survive.
const fs = require("fs"), Datastore = require("nedb");
function mark(text) { fs.writeSync(1, `mark ${text}\n`); fs.readSync(0, Buffer.alloc(16)); }
function sync(path) { const f = fs.openSync(path, "r"); fs.fsyncSync(f); fs.closeSync(f); }
if (process.argv[2] === "work") {
  const db = new Datastore({ filename: "db" });
  db.loadDatabase(() => db.insert([...Array(100).keys()].map(n => ({ n })), () => {
    sync("db"); sync(".");  // the program that uses the database syncs what it has
    mark("100");
    let left = 5;
    const compacted = () => { mark(`100.${left}`); next(); };
    const next = () => left-- ? db.persistence.persistCachedDatabase(compacted) : 0;
    next();
  }));
} else {
  const promised = parseInt(process.env.DRIVEBAY_MARK) || 0;
  const db = new Datastore({ filename: "db" });
  db.loadDatabase(error => {
    if (error) { console.log("the database does not load:", error.message); process.exit(1); }
    db.count({}, (_, found) => {
      console.log(`${promised} documents were promised, ${found} are there`);
      process.exit(found < promised ? 1 : 0);
    });
  });
}
