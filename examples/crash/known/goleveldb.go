// goleveldb: synced Puts, with the database opened anew after each.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func main() {
	if os.Args[1] == "work" {
		in := bufio.NewReader(os.Stdin)
		for n := 1; n <= 8; n++ {
			db, err := leveldb.OpenFile("db", nil)
			if err != nil {
				panic(err)
			}
			synced := &opt.WriteOptions{Sync: true}
			if err := db.Put([]byte(strconv.Itoa(n)), []byte("value"), synced); err != nil {
				panic(err)
			}
			fmt.Println("mark", n)
			in.ReadString('\n')
			db.Close()
		}
		return
	}
	promised, _ := strconv.Atoi(os.Getenv("DRIVEBAY_MARK"))
	db, err := leveldb.OpenFile("db", nil)
	if err != nil {
		fmt.Println("the database does not open:", err)
		os.Exit(1)
	}
	for n := 1; n <= promised; n++ {
		if _, err := db.Get([]byte(strconv.Itoa(n)), nil); err != nil {
			fmt.Printf("key %d was promised: %v\n", n, err)
			os.Exit(1)
		}
	}
}
