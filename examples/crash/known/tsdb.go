// The storage of Prometheus: samples until blocks are written and the write-ahead log is shortened.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/tsdb"
	"github.com/prometheus/tsdb/labels"
)

func main() {
	options := &tsdb.Options{
		WALSegmentSize: 1 << 20, RetentionDuration: 1 << 60, BlockRanges: []int64{1000, 3000},
		NoLockfile: true,
	}
	db, err := tsdb.Open("db", nil, nil, options)
	if err != nil {
		fmt.Println("the database does not open:", err)
		os.Exit(1)
	}
	if os.Args[1] == "work" {
		in := bufio.NewReader(os.Stdin)
		for n := int64(1); n <= 12; n++ {
			appender := db.Appender()
			for i := int64(0); i < 50; i++ {
				if _, err := appender.Add(labels.FromStrings("name", "x"), n*500+i*10, 1); err != nil {
					panic(err)
				}
			}
			if err := appender.Commit(); err != nil {
				panic(err)
			}
			time.Sleep(50 * time.Millisecond) // a block is written in the background
			fmt.Println("mark", n)
			in.ReadString('\n')
		}
	}
	os.Exit(0)
}
