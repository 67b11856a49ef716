// Badger: enough transactions that memtables are flushed to tables; the database must open, and
// each key that it has must be readable.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"time"

	badger "github.com/dgraph-io/badger/v3"
	"github.com/dgraph-io/badger/v3/options"
)

func main() {
	asked := badger.DefaultOptions("db").WithSyncWrites(false).WithLogger(nil).
		WithMemTableSize(1 << 20).WithValueLogFileSize(1 << 21).WithValueThreshold(1 << 16).
		WithNumMemtables(2).WithCompression(options.None).WithBaseTableSize(1 << 20).WithBlockCacheSize(0)
	db, err := badger.Open(asked)
	if err != nil {
		fmt.Println("the database does not open:", err)
		os.Exit(1)
	}
	value := make([]byte, 60000)
	key := func(n int) []byte { return []byte(fmt.Sprintf("%04d", n)) }
	if os.Args[1] == "work" {
		in := bufio.NewReader(os.Stdin)
		for n := 1; n <= 60; n++ {
			for i := range value {
				value[i] = byte(n * (i | 1) >> 3)
			}
			if err := db.Update(func(tx *badger.Txn) error { return tx.Set(key(n), value) }); err != nil {
				panic(err)
			}
			if n%5 == 0 { // the memtables are flushed in the background
				time.Sleep(100 * time.Millisecond)
				fmt.Println("mark", n)
				in.ReadString('\n')
			}
		}
		os.Exit(0) // as a program that is killed: Close would sync
	}
	err = db.View(func(tx *badger.Txn) error {
		rows := tx.NewIterator(badger.DefaultIteratorOptions)
		defer rows.Close()
		for rows.Rewind(); rows.Valid(); rows.Next() {
			n, _ := strconv.Atoi(string(rows.Item().Key()))
			value, err := rows.Item().ValueCopy(nil)
			if err != nil || len(value) != 60000 || value[9] != byte(n*9>>3) {
				return fmt.Errorf("key %d is damaged: %v", n, err)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}
