/* The kernel's interfaces that smq and its tracker of work use, as small as a program without threads allows. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#pragma once

#define __bitwise
#define __force
#define __init
#define __exit
#define READ 0
#define WRITE 1
#define HZ 1000ul
#define GFP_KERNEL 0
#define GFP_NOWAIT 0
#define THIS_MODULE NULL

typedef uint64_t dm_block_t;
typedef uint64_t sector_t;
typedef int spinlock_t;
typedef struct { int value; } atomic_t;

extern unsigned long jiffies;

#define time_after(a, b) ((long)((b) - (a)) < 0)
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define BUG_ON(condition) ((condition) ? (fprintf(stderr, "BUG_ON(%s)\n", #condition), abort()) : (void)0)
#define WARN_ON_ONCE(condition) (condition)
#define DMWARN(...) ((void)0)
#define DMERR(...) ((void)0)
#define DMEMIT(...) ((void)maxlen)
#define EXPORT_SYMBOL_GPL(name) struct unused_symbol
#define MODULE_AUTHOR(text) struct unused_author
#define MODULE_DESCRIPTION(text) struct unused_description
#define MODULE_LICENSE(text) struct unused_licence
#define MODULE_ALIAS(text) struct unused_alias
#define module_init(function) int (*const used_init)(void) = function
#define module_exit(function) void (*const used_exit)(void) = function

#define array_size(number, size) ((size_t)(number) * (size))
#define vzalloc(size) calloc(1, size)
#define vmalloc(size) malloc(size)
#define vfree(pointer) free(pointer)
#define kzalloc(size, flags) calloc(1, size)
#define kmalloc(size, flags) malloc(size)
#define kfree(pointer) free(pointer)

struct kmem_cache { size_t size; };

static inline struct kmem_cache *new_kmem_cache(size_t size)
{
    struct kmem_cache *cache = malloc(sizeof *cache);
    cache->size = size;
    return cache;
}

#define KMEM_CACHE(type, flags) new_kmem_cache(sizeof(struct type))
#define kmem_cache_alloc(cache, flags) malloc((cache)->size)
#define kmem_cache_free(cache, pointer) ((void)(cache), free(pointer))
#define kmem_cache_destroy(cache) free(cache)

#define atomic_set(atomic, number) ((atomic)->value = (number))
#define atomic_add(number, atomic) ((atomic)->value += (number))
#define atomic_read(atomic) ((atomic)->value)
#define spin_lock_init(lock) ((void)(lock))
#define spin_lock_irqsave(lock, flags) ((void)(lock), (flags) = 0)
#define spin_unlock_irqrestore(lock, flags) ((void)(lock), (void)(flags))

#define div64_u64(a, b) ((a) / (b))
#define dm_div_up(a, b) (((a) + (b) - 1) / (b))
#define sector_div(sector, by) ((sector) /= (by))
#define strcasecmp(a, b) strcasecmp(a, b)
#define kstrtoul(text, base, result) (*(result) = strtoul(text, NULL, base), 0)
#define __ffs(number) ((unsigned long)__builtin_ctzl(number))

static inline unsigned long roundup_pow_of_two(unsigned long number)
{
    unsigned long power = 1;
    while (power < number)
        power *= 2;
    return power;
}

/* Multiplication by the golden ratio. The order within a bucket matters to nobody; blocks without a hint get levels. */
static inline uint32_t hash_32(uint32_t value, unsigned bits) { return (value * 0x61c88647u) >> (32 - bits); }
static inline uint64_t hash_64(uint64_t value, unsigned bits) { return (value * 0x61c8864680b583ebull) >> (64 - bits); }

#define BITS_PER_LONG 64u
#define BITS_TO_LONGS(bits) (((bits) + BITS_PER_LONG - 1) / BITS_PER_LONG)

static inline void clear_bit(unsigned bit, unsigned long *bits) { bits[bit / 64] &= ~(1ul << bit % 64); }

static inline bool test_and_set_bit(unsigned bit, unsigned long *bits)
{
    bool was = bits[bit / 64] >> bit % 64 & 1;
    bits[bit / 64] |= 1ul << bit % 64;
    return was;
}

struct list_head { struct list_head *next, *prev; };

static inline void INIT_LIST_HEAD(struct list_head *list) { list->next = list->prev = list; }
static inline bool list_empty(struct list_head *list) { return list->next == list; }

static inline void list_add(struct list_head *item, struct list_head *list)
{
    item->next = list->next;
    item->prev = list;
    list->next->prev = item;
    list->next = item;
}

static inline void list_del(struct list_head *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
}

static inline void list_move(struct list_head *item, struct list_head *list)
{
    list_del(item);
    list_add(item, list);
}

#define list_first_entry(list, type, member) container_of((list)->next, type, member)
#define list_for_each_entry_safe(item, following, list, member)                                  \
    for (item = container_of((list)->next, typeof(*item), member);                               \
         &item->member != (list) &&                                                              \
         (following = container_of(item->member.next, typeof(*item), member), true);             \
         item = following)

/* A search tree. Nobody depends on its balance. */
struct rb_node { struct rb_node *parent, *rb_left, *rb_right; };
struct rb_root { struct rb_node *rb_node; };
#define RB_ROOT (struct rb_root){ NULL }
#define rb_insert_color(node, root) ((void)(root))

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
    *node = (struct rb_node){ .parent = parent };
    *link = node;
}

/* Its right child takes its place, with the left one below the smallest of the right. */
static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
    struct rb_node *heir = node->rb_right ? node->rb_right : node->rb_left, *parent = node->parent;
    if (node->rb_right && node->rb_left) {
        struct rb_node *smallest = heir;
        while (smallest->rb_left)
            smallest = smallest->rb_left;
        smallest->rb_left = node->rb_left;
        node->rb_left->parent = smallest;
    }
    if (heir)
        heir->parent = parent;
    *(!parent ? &root->rb_node : parent->rb_left == node ? &parent->rb_left : &parent->rb_right) = heir;
}
