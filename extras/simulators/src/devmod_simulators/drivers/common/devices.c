/* Devices: which of those that are present a process sees. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Device devices[DEVICES];
/* The numbers of the devices among those present, as they were when the driver was initialized. */
static int visible[DEVICES];

/* Return the number of a device among those present, as the vendor's variable orders them, or -1.
 * The list ends at its first unknown entry. */
static int choose(int device) {
    int present = (int)setting_number("devices", 1);
    const char *list = NULL;
    for (int i = 0; vendor.visible[i] && !list; i++)
        list = getenv(vendor.visible[i]);
    if (setting_number("hidden", 0))
        return -1;
    if (!list)
        return device < present && device < DEVICES ? device : -1;
    for (int i = 0; *list && i <= device; i++) {
        char *end;
        long number = strtol(list, &end, 10);
        if (end == list || number < 0 || number >= present)
            return -1;
        if (i == device)
            return (int)number;
        list = end + (*end == ',');
    }
    return -1;
}

/* Return the number of devices that are visible now. */
int device_count(void) {
    int count = 0;
    while (count < DEVICES && choose(count) >= 0)
        count++;
    return count;
}

/* Note the devices that exist, when the driver is initialized. */
void devices_open(void) {
    for (int i = 0; i < device_count(); i++) {
        devices[i].exists = true;
        visible[i] = choose(i);
    }
}

/* Return the number of a visible device among those that are present. */
int physical_device(int device) {
    return visible[device];
}

/* Return whether a number is that of a device. */
bool device_valid(int device) {
    return device >= 0 && device < DEVICES && devices[device].exists;
}

/* Write the item of a setting with several (separated by commas) that is for a device: the last one
 * is for those behind it. */
void device_setting(const char *name, int device, const char *fallback, char *item, size_t size) {
    const char *list = setting(name), *next;
    if (!list)
        list = fallback;
    for (int i = 0; i < visible[device] && (next = strchr(list, ',')); i++)
        list = next + 1;
    snprintf(item, size, "%.*s", (int)strcspn(list, ","), list);
}

uint64_t device_memory(void) {
    return setting_number("memory", UINT64_C(4) << 30);
}
